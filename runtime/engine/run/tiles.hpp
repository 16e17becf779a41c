// Between hosts a large start is divided into tiles (engine/start/tiling.hpp), each a whole collective of its
// own, in flight together. While one tile is on the links, another is in the hosts' memory, so the links have
// no pause.
//
// All tiles have the start's number and checksum: people are told the number, and ranks compare the checksum.
// Each tile takes a sequence number of its own, which gives its messages their tags and local peers their
// slot.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/run/startable_plan.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

// How many messages may be in flight at once. Providers have queues of about a thousand. If one is full of
// messages that nobody asks for yet, it can block those that somebody waits for.
inline constexpr std::size_t window_messages = 256;

// Whether starts of the program may be divided between hosts: then everything is at the same place in the
// ranks' buffers, and nothing is calculated of more than one element.
bool can_be_divided(const dsl::RankProgram& program);

// Decides into how many tiles, from what all ranks know alike. Throws like Plan::elements_of_x.
void divide(Start& start);

// Begins the first tile's execution, with the others behind it (Execution::next_tile). If one cannot begin,
// none does. plan: the start's.
Execution& begin_tiles(StartablePlan& plan, const Start& start, LocalPeers* local_peers);

// Gives the execution back to its plan, with the tiles behind it.
void give_back(Execution& first);

}  // namespace hocket::engine
