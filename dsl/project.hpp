// Step graph -> the program of one rank.
#pragma once

#include "dsl/rank_program.hpp"
#include "dsl/step_graph.hpp"

namespace hocket::dsl {

// `graph` holds at least the steps of `rank`, and belongs to a verified schedule. Decides where each piece
// lives (input, output, work, scratch), splits and merges transfers into operations, and finds what each must
// wait for. Fills in everything but the names and the fingerprint.
RankProgram project(const StepGraph& graph, Rank rank);

}  // namespace hocket::dsl
