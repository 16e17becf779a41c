// Room in memory for what is loaded. A load that somebody waits for waits for room; a prefetch gives up.
#pragma once

#include <cstdint>

#include "runtime/cache/io/task.hpp"
#include "runtime/cache/loading/load.hpp"
#include "runtime/cache/loading/options.hpp"
#include "runtime/cache/memory/memory.hpp"
#include "runtime/cache/room/room_gate.hpp"

namespace hocket::cache {

// Of the loop's thread, except gate().
class LoadRoom {
  public:
    // All of it outlives this.
    LoadRoom(const LoadOptions& options, Memory& memory, RoomGate& gate)
        : options_(options), memory_(memory), gate_(gate) {}

    // Room for so many bytes as they are read. Empty: the load has given up. Throws Error(limit | timeout).
    Task<ArenaBlock> wait(Load& load, std::uint64_t bytes);

    // Before the first step. False: the load has given up.
    bool keep_spare(Load& load);

    // A prefetch has found no room. True: nobody waits for it, and the load ends. False: somebody waits for
    // it now, or always has.
    bool give_up(Load& load);

    // What the load needs room for, without the bytes.
    RoomGate::Use use_of(const Load& load, bool is_decoded) const;

    void note_made(std::uint64_t bytes);  // by a function of the embedder

    RoomGate& gate() const { return gate_; }

  private:
    bool is_near(std::uint64_t position) const;

    const LoadOptions& options_;
    Memory& memory_;
    RoomGate& gate_;
    std::uint64_t made_bytes_ = 0;  // the largest sample that a function has made of late
};

}  // namespace hocket::cache
