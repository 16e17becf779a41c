// Where the processes of a job are, and what is below what.
#pragma once

#include <vector>

#include "dsl/graph/topology.hpp"
#include "dsl/prediction/workload.hpp"

namespace hocket::dsl {

inline constexpr int the_server = -1;

struct PlacedJob {
    std::vector<Rank> workers, servers;     // hosts
    std::vector<std::vector<int>> parents;  // by server, by worker: a worker, or the_server
    double slowest = 0;                     // of the rates at which workers read
};

// With Job::Placement::order, trees are those of the parameter service (params::Tree). number: of the job, so
// that jobs draw differently.
PlacedJob place(const Job& job, std::size_t number, std::uint64_t seed, int rack, Rank hosts);

}  // namespace hocket::dsl
