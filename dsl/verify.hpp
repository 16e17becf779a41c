// Proves that a laid-out schedule does what its collective promises, by running it on symbols.
#pragma once

#include <string>

#include "dsl/deadline.hpp"
#include "dsl/step_graph.hpp"

namespace hocket::dsl {

// Every element's value is the set of ranks whose contribution it holds. Checked: nothing undefined is read;
// no contribution is counted twice; simultaneous writes to one place all combine; parallel strands don't
// touch each other's places; at the end every rank holds what the collective promises. Because regions are
// exact fractions, one run holds for every element count.
//
// Throws DiagnosticError with a counter-example: rank, chunk, contribution, and the line that wrote last; or
// DeadlineError.
// `subject` names what is checked, for the message ("schedule bml all_reduce on bcube(3, 2)").
void verify(const StepGraph& graph, const std::string& subject, const Deadline& deadline = no_deadline);

}  // namespace hocket::dsl
