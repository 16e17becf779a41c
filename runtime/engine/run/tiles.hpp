// Between hosts a large start is divided into tiles (engine/start/tiling.hpp), each a whole collective of its
// own, in flight together. While one tile is on the links, another is in the hosts' memory, so the links are
// never idle.
//
// All tiles have the start's number and checksum: texts contain the number, and ranks compare the checksum.
// Each tile takes a sequence number of its own, which determines the tags of its messages and its slot among
// local peers.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/engine/run/local_peers.hpp"
#include "runtime/engine/run/startable_plan.hpp"
#include "runtime/engine/start/start.hpp"

namespace hocket::engine {

// Returns true if starts of the program may be divided between hosts: then every element has the same
// position in all ranks' buffers, and no computation needs more than one element.
bool can_be_divided(const dsl::RankProgram& program);

// Decides the number of tiles, from facts that all ranks know. Throws like Plan::elements_of_x.
void divide(Start& start);

// Begins the execution of the first tile, followed by the others (Execution::next_tile). If one cannot begin,
// none does. plan: the plan of this start.
Execution& begin_tiles(StartablePlan& plan, const Start& start, LocalPeers* local_peers);

// Gives the execution back to its plan, with the tiles that follow it.
void give_back(Execution& first);

}  // namespace hocket::engine
