// The rate that no schedule can exceed, by the worst cut of the network (ForestColl's bottleneck cut).
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/base/rational.hpp"
#include "dsl/synthesis/link_graph.hpp"

namespace hocket::dsl {

struct Bound {
    Rational rate;                // of what each root sends to all, in the graph's units
    std::vector<bool> inside;     // by vertex: the cut that limits it; data of the roots inside must leave it
    std::vector<LinkId> leaving;  // the links that leave it
};

// Returns the highest rate at which each of the roots can send data of its own to all ranks at once.
// The time for B bytes from each root is B / (rate * unit). Throws DeadlineError, and DiagnosticError for
// rates with too small a common unit.
Bound find_bound(const LinkGraph& graph, const std::vector<Rank>& roots, const Deadline& deadline);

}  // namespace hocket::dsl
