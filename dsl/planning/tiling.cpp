#include "dsl/planning/tiling.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace hocket::dsl {
namespace {

// Smaller tiles are not worth their messages, many of which carry one rank's share of the tile.
constexpr std::uint64_t least_tile_bytes = 256 * 1024, least_bytes_a_rank = 32 * 1024;

}  // namespace

std::uint64_t tiles_for(std::uint64_t bytes, Rank ranks, std::uint64_t messages) {
    if (bytes < 2 * least_tile_bytes) return 1;
    const std::uint64_t least =
        std::max(least_tile_bytes, least_bytes_a_rank * static_cast<std::uint64_t>(ranks));
    const std::uint64_t in_window = window_messages / std::max<std::uint64_t>(messages, 1);
    return std::clamp<std::uint64_t>(bytes / least, 1, std::clamp<std::uint64_t>(in_window, 1, most_tiles));
}

std::uint64_t most_messages(const StepGraph& graph, const std::function<bool(Rank, Rank)>& share) {
    std::vector<std::uint64_t> messages(static_cast<std::size_t>(graph.ranks), 0);
    std::set<std::pair<Rank, Rank>> pairs;
    std::uint32_t phase = 0;
    for (const Step& step : graph.steps) {
        if (step.phase != phase) pairs.clear();
        phase = step.phase;
        if (share(step.source, step.destination)) continue;
        if (!pairs.emplace(step.source, step.destination).second) continue;
        for (const Rank rank : {step.source, step.destination}) ++messages[static_cast<std::size_t>(rank)];
    }
    return *std::max_element(messages.begin(), messages.end());
}

std::uint64_t most_messages(const StepGraph& graph, const DataSymmetry& symmetry,
                            const std::function<bool(Rank, Rank)>& share) {
    std::uint64_t most = most_messages(graph, share);
    if (most >= window_messages) return most;
    std::set<std::tuple<std::uint32_t, Rank, Rank>> pairs;  // those of rank 0, with their phases
    for (const Step& step : graph.steps) pairs.emplace(step.phase, step.source, step.destination);
    for (Rank rank = 1; rank < graph.ranks && most < window_messages; ++rank) {
        const std::vector<Rank> amounts = symmetry.ranks.amounts(symmetry.topology, rank);
        const auto is_sent = [&](const auto& pair) {
            const auto& [phase, source, destination] = pair;
            const Rank other = source == 0 ? destination : source;
            return !share(rank, symmetry.ranks.moved(symmetry.topology, other, amounts));
        };
        most = std::max(most, static_cast<std::uint64_t>(std::ranges::count_if(pairs, is_sent)));
    }
    return most;
}

StepGraph in_tiles(const StepGraph& graph, std::uint32_t tiles) {
    StepGraph result = graph;
    result.strands.resize(1);
    result.steps.clear();
    result.steps.reserve(graph.steps.size() * tiles);
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
        const auto first = static_cast<std::uint32_t>(result.strands.size());
        for (Strand strand : graph.strands) {
            const bool is_whole = result.strands.size() == first;
            strand.parent = is_whole ? 0 : first + strand.parent;
            if (is_whole) strand.block = 1;
            result.strands.push_back(strand);
        }
        for (Step step : graph.steps) {
            step.phase += tile * graph.phases;
            step.strand += first;
            result.steps.push_back(step);
        }
    }
    result.phases = tiles * graph.phases;
    result.executions.clear();
    return result;
}

}  // namespace hocket::dsl
