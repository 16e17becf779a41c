// Graphs of ranks alone: switches are removed, and links lead past them (ForestColl's edge splitting).
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "dsl/synthesis/link_graph.hpp"

namespace hocket::dsl {

// Capacities by pair of vertices, in trees. Pairs without any are left out.
using Capacities = std::map<std::pair<Vertex, Vertex>, std::int64_t>;

// Returns true if from each root the data of `parts` trees can flow to every rank at once. Throws
// DeadlineError.
bool can_flow(const Capacities& capacities, const LinkGraph& graph, const std::vector<Rank>& roots,
              std::int64_t parts, const Deadline& deadline);

// Removes the switches, so that can_flow() stays true, which it must be. Where there is a choice, links are
// joined as messages go. Returns the capacities between ranks. Throws DeadlineError.
Capacities without_switches(Capacities capacities, const LinkGraph& graph, const Ways& ways,
                            const std::vector<Rank>& roots, std::int64_t parts, const Deadline& deadline);

}  // namespace hocket::dsl
