#include "dsl/planning/predictable.hpp"

#include <algorithm>

#include "dsl/planning/tiling.hpp"
#include "dsl/prediction/costs.hpp"

namespace hocket::dsl {
namespace {

// Of all tiles: larger graphs are predicted in fewer tiles, to save time and memory.
constexpr std::size_t most_steps = std::size_t{1} << 22;

// As in the engine: x is one piece, no computation needs more than one element, and while a tile is on the
// links another can be in a host's memory.
bool may_be_divided(const StepGraph& graph, const Topology& topology) {
    const Rank local = ranks_over(topology, [&](int level) { return is_memory(topology.levels[level]); });
    return graph.buffers == 1 && !contract_of(graph.collective).is_by_rank() && graph.computations.empty() &&
           local > 1 && local < graph.ranks;
}

}  // namespace

PredictableSchedule::PredictableSchedule(ScheduleToPredict schedule, const PredictOptions& options)
    : schedule_(std::make_unique<const ScheduleToPredict>(std::move(schedule))), options_(options) {
    options_.symmetry = schedule_->symmetry ? &*schedule_->symmetry : nullptr;
    const StepGraph& graph = *schedule_->graph;
    const Topology& topology = schedule_->topology;
    const bool knows_memory = schedule_->network->core_of(0) < most_links;
    const bool has_room = graph.steps.size() <= most_steps / 2;
    if (options.ideal || options_.symmetry || !knows_memory || !has_room || !may_be_divided(graph, topology))
        return;
    messages_ = most_messages(
        graph, [&](Rank a, Rank b) { return is_memory(topology.levels[level_between(topology, a, b)]); });
}

std::uint64_t PredictableSchedule::tiles(double bytes) const {
    if (messages_ == 0 || !(bytes < 0x1p63)) return 1;
    const std::size_t room = most_steps / std::max<std::size_t>(schedule_->graph->steps.size(), 1);
    return std::clamp<std::uint64_t>(
        tiles_for(static_cast<std::uint64_t>(bytes), schedule_->graph->ranks, messages_), 1,
        std::max<std::size_t>(room, 1));
}

void PredictableSchedule::lay_out(std::uint64_t tiles, const Deadline& deadline) {
    if (predictor_ && tiles == tiles_) return;
    predictor_.reset();
    graph_ = tiles > 1 ? std::make_unique<const StepGraph>(
                             in_tiles(*schedule_->graph, static_cast<std::uint32_t>(tiles)))
                       : nullptr;
    tiles_ = tiles;
    options_.deadline = deadline;
    options_.tiles = static_cast<std::uint32_t>(tiles);
    predictor_ =
        std::make_unique<Predictor>(graph_ ? *graph_ : *schedule_->graph, *schedule_->network, options_);
}

Prediction PredictableSchedule::predict(double bytes, const Deadline& deadline) {
    lay_out(tiles(bytes), deadline);
    return predictor_->predict(bytes / static_cast<double>(tiles_), deadline);
}

}  // namespace hocket::dsl
