// Formats programs and graphs for people and other programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dsl/graph/step_graph.hpp"
#include "dsl/projection/rank_program.hpp"

namespace hocket::tools {

// Returns one line for each transfer, in program order: "phase 3: x[1/4, 1/2): 1 +> 2
// schedules/ring.sched:6". With a rank: only its own transfers.
std::string graph_text(const dsl::StepGraph& graph, std::optional<dsl::Rank> rank);

// Returns Graphviz text: a cluster for each rank, an arrow for each dependency, dashed arrows for messages
// between these ranks.
std::string dot_text(const std::vector<dsl::RankProgram>& programs);

// Returns {"schedule", "topology", "collective", "ranks", "programs": [{"rank", "boundaries", "scratch",
// "ops": [...]}]}
std::string json_text(const std::vector<dsl::RankProgram>& programs);

}  // namespace hocket::tools
