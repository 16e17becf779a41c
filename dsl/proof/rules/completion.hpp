// Results of a proof besides the fact that the schedule is right.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/graph/step_graph.hpp"

namespace hocket::dsl {

// The places that combining steps complete: after the phase of such a step, a place that it wrote holds the
// contributions of all ranks. A place is completed only once, because no contribution is counted twice.
struct Completion {
    static constexpr std::uint32_t nothing = 0, all = 1, first_part = 2;
    std::vector<std::uint32_t> by_step;  // nothing, all of its target, or first_part + index into parts
    std::vector<Region> parts;
    // True if something is calculated from values that hold the contributions of several ranks, but not of
    // all. Linear computations may do so for sums, but not for a maximum or a product.
    bool computes_on_parts = false;
    // By extra buffer; for states then by rank, ascending. Empty for a rank that keeps nothing.
    std::vector<std::vector<std::vector<Holding>>> holdings;

    std::uint32_t of(std::size_t step) const { return by_step.empty() ? nothing : by_step[step]; }
};

// Returns true if results hold the contributions of all ranks. A collective that a file defines may want
// results of some ranks, which no step is known to complete.
inline bool completes(const Contract& contract) {
    return contract.combines() && !contract.own;
}

}  // namespace hocket::dsl
