// Whether a checked all_to_all can have a count for each pair of ranks. Each rank then knows only how much it
// sends and receives itself.
#pragma once

#include "dsl/graph/step_graph.hpp"

namespace hocket::dsl {

// Null if every piece goes straight from the input of the rank that has it to its place in the output of the
// rank that it is for. Otherwise the first step that does something else: a rank that passes on what others
// exchange would have to know their counts.
const Step* first_detour(const StepGraph& graph);

// Throws DiagnosticError, which says where, if there is a detour. `name`: the schedule's.
void require_direct(const StepGraph& graph, const std::string& name);

}  // namespace hocket::dsl
