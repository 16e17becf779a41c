// Proves by a run on symbols that a laid-out schedule does what its collective promises.
#pragma once

#include <string>

#include "dsl/base/deadline.hpp"
#include "dsl/graph/step_graph.hpp"
#include "dsl/proof/rules/completion.hpp"

namespace hocket::dsl {

// Proves the schedule. An element's value is the set of ranks that contributed to it. The proof checks that
// nothing undefined is read; that no contribution is counted twice; that simultaneous writes to one place all
// combine; that parallel strands don't touch each other's places; and that at the end every rank holds what
// the collective promises. Because regions are exact fractions, one run proves it for every element count.
//
// Throws DiagnosticError with a counter-example: rank, chunk, contribution, and the line that wrote last; or
// DeadlineError. `subject` names the checked schedule, for the message ("schedule bml all_reduce on bcube(3,
// 2)"). Returns the places that are completed, if the collective combines.
Completion verify(const StepGraph& graph, const std::string& subject, const Deadline& deadline = no_deadline);

}  // namespace hocket::dsl
