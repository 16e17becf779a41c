// One load: a sample that is being brought into memory, and what its steps have found out so far.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/room/room_gate.hpp"

namespace hocket::cache {

// Of the loop's thread. It lies in the frame of the coroutine that runs it.
struct Load {
    std::uint64_t key;
    Loop::Clock::time_point deadline;
    bool own = false;                                      // peers are not asked
    bool is_put = false;                                   // only read, to be compared
    bool is_prefetch = false;                              // nobody waits, as far as is known
    std::optional<std::uint64_t> position = std::nullopt;  // in the order
    std::uint64_t orders = 0;                              // how many had been set when it began
    bool gave_up = false;                                  // a prefetch that found no room
    bool is_copy = false;                                  // another rank's sample
    bool is_fresh = false;                                 // from the source: the disk does not have it
    bool is_decoded = false;
    Spare* spare = nullptr;
    ArenaBlock block = {};
    std::uint64_t bytes = 0;
};

}  // namespace hocket::cache
