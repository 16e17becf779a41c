// schedc simulate: says how long jobs of parameter servers take on a network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsl/graph/topology.hpp"
#include "dsl/prediction/workload.hpp"

namespace hocket::tools {

struct SimulateRequest {
    std::string workload;  // a file
    std::string network;   // empty: the file's
    int seeds = 1;         // runs, each with the next seeds of places, trees and routing
    bool json = false, certify = false;
    double timeout = 60;  // seconds
};

// A file: a workload on a cluster.
struct ClusterWorkload {
    dsl::Rank hosts = 0;
    std::string network;  // as in --network
    dsl::Workload workload;
};

// Reads the form that docs/prediction.md describes. Throws DiagnosticError with the place. name: of the text,
// for messages.
ClusterWorkload parse_workload(const std::string& name, const std::string& text);

// Throws DiagnosticError, NotFoundError and DeadlineError. Returns 0.
int run_simulate(const SimulateRequest& request);

}  // namespace hocket::tools
