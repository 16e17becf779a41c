// Schedules for predictions: proved and laid out on all ranks; or on many ranks, where one stands for all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/graph/step_graph.hpp"
#include "dsl/graph/symmetry.hpp"
#include "dsl/planning/compile.hpp"
#include "dsl/prediction/network.hpp"

namespace hocket::dsl {

enum class WhoseSteps : std::uint8_t {
    by_size,  // of one rank if there are more than most_ranks_in_full, and it stands for all
    of_all_ranks,
    of_one_rank,  // which must stand for all
};

// On more than this many, one rank stands for all.
inline constexpr Rank most_ranks_in_full = 1024;

struct ScheduleToPredict {
    std::string name;  // with arguments
    Topology topology;
    std::shared_ptr<const Network> network;
    // The steps of all ranks, as they were proved. With a symmetry, those of rank 0: the motions make those
    // of the others of them. This was found in the text of the schedule. If the motions bring the pieces of x
    // along, it was proved for all these ranks; else on smaller topologies of as many levels.
    std::shared_ptr<const StepGraph> graph = {};
    std::uint64_t fingerprint = 0;  // of the graph
    std::optional<Symmetry> symmetry = {};
    std::vector<std::string> proved_on = {};  // with a symmetry: the names of the topologies
    std::string why_in_full = {};             // on many ranks without a symmetry: what there is instead
    // Parameters of each start: densities that count as 0.01, as none is given; and what the request gives
    // and the schedule does not take.
    std::vector<std::string> missing_densities = {}, unknown_parameters = {};
    std::shared_ptr<const void> definitions = {};  // that the graph refers to
};

// Throws NotFoundError if the request gave parameters that the schedule does not take.
void refuse_unknown_parameters(const ScheduleToPredict& schedule);

// Returns the topology with at most `most` ranks in which the largest levels are halved, rounded up, often
// enough. Powers of two remain such, and no level gets less than two ranks. Its name is its sizes: "4x4x4".
Topology smaller(const Topology& topology, Rank most);

}  // namespace hocket::dsl
