// Between hosts a large start goes in tiles: stretches of x, each a whole collective of its own, in flight
// together. While one is on the links, another is in the memory of the hosts, and the links have no pause.
//
// All tiles have the start's number and checksum, which is what people are told and ranks compare. Each takes
// a turn of its own: that gives its messages their tags, and neighbours their lane.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/run/neighbourhood.hpp"

namespace hocket::engine {

// Messages that may be in flight at once: providers have queues of about a thousand, and one that is full of
// messages which nobody asks for yet can block those that somebody waits for.
inline constexpr std::size_t window_messages = 256;

// One start on a communicator: what its tiles have in common. All ranks count alike.
struct Start {
    Plan* plan = nullptr;
    std::uint64_t count = 0;         // as in Extent
    const Layout* uneven = nullptr;  // as there; only while the start begins
    const std::byte* send = nullptr;
    std::byte* recv = nullptr;
    double factor = 1;           // this rank's, where the plan multiplies
    std::uint64_t number = 0;    // of all starts
    std::uint64_t turn = 0;      // the first tile's
    std::uint32_t checksum = 0;  // of what all ranks have started so far
    std::uint64_t tiles = 1;
    std::uint64_t tile_elements = 0;  // of each tile but the last, which may have fewer

    std::uint64_t begin_of(std::uint64_t tile) const { return tile * tile_elements; }
    std::uint64_t elements_of(std::uint64_t tile) const {
        return tile + 1 < tiles ? tile_elements : count - begin_of(tile);
    }
};

// Into how many tiles, by what all ranks know alike. Throws as Plan::elements_of_x.
void divide(Start& start);

// The first tile's execution, begun, with the others behind it (Execution::next_tile). If one cannot begin,
// none does.
Execution& begin_tiles(const Start& start, Neighbourhood* neighbourhood);

}  // namespace hocket::engine
