// Whether a checked schedule can run with counts that differ. Its proof takes all ranks' pieces for equally
// long, so where they are not, more is demanded of what is moved to where.
#pragma once

#include <cstdint>
#include <string>

#include "dsl/graph/step_graph.hpp"

namespace hocket::dsl {

// How many elements the ranks' pieces have: all as many; a count for each rank; or in all_to_all a count for
// each pair of ranks, where each rank knows only how much it sends and receives itself.
enum class Counts : std::uint8_t { alike, by_rank, by_pair };

// With counts by rank: null if every step writes to the very place that it reads. Otherwise the first one
// that moves something to another place: the two have different lengths for some counts.
const Step* first_move(const StepGraph& graph);

// By pair: null if every piece goes straight from the input of the rank that has it to its place in the
// output of the rank that it is for. Otherwise the first step that does something else: a rank that passes on
// what others exchange would have to know their counts.
const Step* first_detour(const StepGraph& graph);

// Whether there is nothing that speaks against these counts.
bool allows(const StepGraph& graph, Counts counts);

// Throws DiagnosticError, which says where, if not. `name`: the schedule's.
void require(const StepGraph& graph, Counts counts, const std::string& name);

}  // namespace hocket::dsl
