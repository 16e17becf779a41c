// The tiles in which a large start goes between hosts. The engine divides by this rule, and predictions
// follow it.
#pragma once

#include <cstdint>
#include <functional>

#include "dsl/graph/cells.hpp"
#include "dsl/graph/step_graph.hpp"

namespace hocket::dsl {

inline constexpr std::uint64_t most_tiles = 8;
// The limit of messages in flight. Providers have queues of about a thousand. A queue full of unexpected
// messages can block those for which a receive is posted.
inline constexpr std::uint64_t window_messages = 256;

// Returns the number of tiles for this many bytes of x. messages: most_messages of the graph.
std::uint64_t tiles_for(std::uint64_t bytes, Rank ranks, std::uint64_t messages);

// Returns the most messages between hosts that any rank sends and receives. A phase has one for each pair of
// ranks. share: whether two ranks share memory.
std::uint64_t most_messages(const StepGraph& graph, const std::function<bool(Rank, Rank)>& share);

// The same by the steps of rank 0, which stands for all. Counts of window_messages and more need not be the
// most.
std::uint64_t most_messages(const StepGraph& graph, const DataSymmetry& symmetry,
                            const std::function<bool(Rank, Rank)>& share);

// Returns the graph of so many starts side by side, for PredictOptions::tiles. Each is a strand; the strands
// of one lie together, and come before those of the next.
StepGraph in_tiles(const StepGraph& graph, std::uint32_t tiles);

}  // namespace hocket::dsl
