// The state of one load: a sample that is being brought into memory, and the findings of its steps so far.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/base/error.hpp"
#include "runtime/cache/io/loop.hpp"
#include "runtime/cache/room/room_gate.hpp"

namespace hocket::cache {

// Used only on the loop's thread. Part of the frame of the coroutine that runs it.
struct Load {
    std::uint64_t key;
    Loop::Clock::time_point deadline;
    bool own = false;                                      // peers are not asked
    bool is_put = false;                                   // only read for comparison
    bool is_prefetch = false;                              // no caller waits for it, as far as known
    std::optional<std::uint64_t> position = std::nullopt;  // in the order
    std::uint64_t orders = 0;                              // number of orders set when it began
    bool gave_up = false;                                  // a prefetch that found no room
    std::uint64_t cursor = 0;                              // the memory's, when it last looked for room
    bool is_copy = false;                                  // of another rank's sample
    bool is_fresh = false;                                 // from the source, and not on the disk
    bool is_decoded = false;
    std::optional<Error> owner_failed = std::nullopt;  // why its owner could not be asked, if so
    Spare* spare = nullptr;
    ArenaBlock block = {};
    std::uint64_t bytes = 0;
};

}  // namespace hocket::cache
