// schedc simulate: says how long iterations of training jobs take on a network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/topology.hpp"
#include "dsl/prediction/network.hpp"
#include "dsl/prediction/workload.hpp"
#include "runtime/overlap/planner.hpp"

namespace hocket::tools {

struct SimulateRequest {
    std::string workload;  // a file
    std::string network;   // empty: the file's
    int seeds = 1;         // runs, each with the next seeds of places, trees and routing
    bool json = false, certify = false;
    std::vector<std::string> search_path;  // of schedules
    double timeout = 60;                   // seconds
};

// A job's model, layer by layer, and how the overlap planner divides it into batches.
struct TrainedModel {
    std::string profile;  // a file of the overlap planner; empty: the job has no layers
    // Methods for batches of weights, and of gradients.
    overlap::Method forward = overlap::Method::sequential, backward = overlap::Method::sequential;
    bool early = false;  // as in dsl::Overlap
    double gradients = 1;
    std::optional<double> startup;        // instead of the profile's
    std::optional<double> forward_share;  // of the computation, if the profile has no forward passes
    std::string all_reduce;  // a schedule that combines gradients without servers; empty: servers do
};

// A file: a workload on a cluster.
struct ClusterWorkload {
    dsl::Rank hosts = 0;
    std::string network;  // as in --network
    dsl::Workload workload;
    std::vector<TrainedModel> models;  // by job
};

// Reads the form that docs/prediction.md describes. Throws DiagnosticError with the place. name: of the text,
// for messages.
ClusterWorkload parse_workload(const std::string& name, const std::string& text);

// Returns the workload with the layers and the batches of its jobs. Batches are planned with the times that
// the network's links need for a job's bytes alone. Throws DiagnosticError, NotFoundError, DeadlineError, and
// Error for a profile.
dsl::Workload with_models(const ClusterWorkload& cluster, dsl::Workload workload, const dsl::Network& network,
                          const std::vector<std::string>& search_path, const dsl::Deadline& deadline);

// Throws like with_models(). Returns 0.
int run_simulate(const SimulateRequest& request);

}  // namespace hocket::tools
