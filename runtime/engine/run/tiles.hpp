// Between hosts a large start goes in tiles: stretches of x, each a whole collective of its own, in flight
// together. While one is on the links, another is in the memory of the hosts, and the links have no pause.
//
// All tiles have the start's number and checksum, which is what people are told and ranks compare. Each takes
// a turn of its own: that gives its messages their tags, and neighbours their lane.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/engine/run/neighbourhood.hpp"
#include "runtime/engine/run/start.hpp"
#include "runtime/engine/run/startable_plan.hpp"

namespace hocket::engine {

// Messages that may be in flight at once: providers have queues of about a thousand, and one that is full of
// messages which nobody asks for yet can block those that somebody waits for.
inline constexpr std::size_t window_messages = 256;

// Into how many tiles, by what all ranks know alike. Throws as Plan::elements_of_x.
void divide(Start& start);

// The first tile's execution, begun, with the others behind it (Execution::next_tile). If one cannot begin,
// none does. plan: the start's.
Execution& begin_tiles(StartablePlan& plan, const Start& start, Neighbourhood* neighbourhood);

// To its plan, with the tiles behind it.
void give_back(Execution& first);

}  // namespace hocket::engine
