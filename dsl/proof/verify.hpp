// Proves by a run on symbols that a laid-out schedule does what its collective promises.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/base/deadline.hpp"
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

// Proves the schedule. An element's value is the set of ranks that contributed to it. The proof checks that
// nothing undefined is read; that no contribution is counted twice; that simultaneous writes to one place all
// combine; that parallel strands don't touch each other's places; and that at the end every rank holds what
// the collective promises. Because regions are exact fractions, one run proves it for every element count.
// exact fractions, one run holds for every element count.
//
// Throws DiagnosticError with a counter-example: rank, chunk, contribution, and the line that wrote last; or
// DeadlineError. `subject` names the checked schedule, for the message ("schedule bml all_reduce on bcube(3,
// 2)"). Returns the places that are completed, if the collective combines.
Completion verify(const StepGraph& graph, const std::string& subject, const Deadline& deadline = no_deadline);

}  // namespace hocket::dsl
