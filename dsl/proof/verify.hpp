// Proves that a laid-out schedule does what its collective promises, by running it on symbols.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/step_graph.hpp"

namespace hocket::dsl {

// What the combining steps complete: after the phase of such a step, a place that it wrote holds the
// contributions of all ranks. A place is completed once: no contribution is counted twice.
struct Completion {
    static constexpr std::uint32_t nothing = 0, all = 1, first_part = 2;
    std::vector<std::uint32_t> by_step;  // nothing, all of its target, or first_part + index into parts
    std::vector<Region> parts;
    // Something is calculated of values that hold several ranks' contributions, but not those of all. What is
    // linear may be: it is right where contributions are added up, but not for a maximum or a product.
    bool computes_on_parts = false;
    // By extra buffer; of a state by rank, ascending. Where a rank keeps nothing there is none.
    std::vector<std::vector<std::vector<Holding>>> holdings;

    std::uint32_t of(std::size_t step) const { return by_step.empty() ? nothing : by_step[step]; }
};

// Every element's value is the set of ranks whose contribution it holds. Checked: nothing undefined is read;
// no contribution is counted twice; simultaneous writes to one place all combine; parallel strands don't
// touch each other's places; at the end every rank holds what the collective promises. Because regions are
// exact fractions, one run holds for every element count.
//
// Throws DiagnosticError with a counter-example: rank, chunk, contribution, and the line that wrote last; or
// DeadlineError.
// `subject` names what is checked, for the message ("schedule bml all_reduce on bcube(3, 2)").
// Returns what is completed where, if the collective combines.
Completion verify(const StepGraph& graph, const std::string& subject, const Deadline& deadline = no_deadline);

}  // namespace hocket::dsl
