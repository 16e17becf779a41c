// Provides room in memory for loads. A load that a caller waits for waits for room; a prefetch gives up.
#pragma once

#include <cstdint>

#include "runtime/cache/io/task.hpp"
#include "runtime/cache/loading/load.hpp"
#include "runtime/cache/loading/options.hpp"
#include "runtime/cache/memory/memory.hpp"
#include "runtime/cache/room/room_gate.hpp"

namespace hocket::cache {

// Used only on the loop's thread, except gate().
class LoadRoom {
  public:
    // All arguments must outlive this object.
    LoadRoom(const LoadOptions& options, Memory& memory, RoomGate& gate)
        : options_(options), memory_(memory), gate_(gate) {}

    // Returns room for the bytes read; empty if the load has given up. Throws Error(limit | timeout).
    Task<ArenaBlock> wait(Load& load, std::uint64_t bytes);

    // Called before the first step. Returns false if the load has given up.
    bool keep_spare(Load& load);

    // Called when a prefetch has found no room. Returns true if no caller waits for the load, which then
    // ends; false if a caller waits for it now, or always has.
    bool give_up(Load& load);

    // Describes the load's need for room, without the bytes.
    RoomGate::Use use_of(Load& load, bool is_decoded) const;

    void note_made(std::uint64_t bytes);  // records the size of a function's output

    RoomGate& gate() const { return gate_; }

  private:
    bool is_near(std::uint64_t position, std::uint64_t cursor) const;

    const LoadOptions& options_;
    Memory& memory_;
    RoomGate& gate_;
    std::uint64_t made_bytes_ = 0;  // the largest recent output of a function
};

}  // namespace hocket::cache
