// Decides which checked schedules can run with counts that differ. The proof assumes that all ranks' pieces
// have the same length, so schedules for pieces of different lengths must satisfy more.
#pragma once

#include <cstdint>
#include <string>

#include "dsl/graph/step_graph.hpp"

namespace hocket::dsl {

// The numbers of elements in the ranks' pieces: all equal; one count per rank; or, in all_to_all, one count
// per pair of ranks, where each rank knows only how much it sends and receives itself.
enum class Counts : std::uint8_t { alike, by_rank, by_pair };

// For counts by rank: returns null if every step writes to the very place that it reads. Otherwise returns
// the first step that moves data to another place, because the two places differ in length for some counts.
const Step* first_move(const StepGraph& graph);

// For counts by pair: returns null if every piece goes straight from the input of the rank that has it to its
// place in the output of the rank that it is for. Otherwise returns the first step that does something else,
// because a rank that passes on what others exchange would have to know their counts.
const Step* first_detour(const StepGraph& graph);

// Returns true if the schedule can run with these counts.
bool allows(const StepGraph& graph, Counts counts);

// Throws DiagnosticError with the place in the source unless allows(). `name`: the schedule's.
void require(const StepGraph& graph, Counts counts, const std::string& name);

}  // namespace hocket::dsl
