// Receives the data that a function of the embedder has read or decoded.
#pragma once

#include <string>

#include "runtime/cache/room/room_gate.hpp"

namespace hocket::cache {

// For one call, on one thread.
class Value {
  public:
    // use: the purpose of the room; reserve() fills in the bytes. spare: used if it is large enough; may be
    // null.
    Value(RoomGate& gate, RoomGate::Use use, RoomGate::Clock::time_point deadline, Spare* spare)
        : gate_(gate), use_(use), deadline_(deadline), spare_(spare) {}

    // May be called once. Returns null if there will never be enough room, or if there was none until the
    // deadline.
    std::byte* reserve(std::uint64_t bytes) noexcept;

    bool is_reserved() const { return static_cast<bool>(block); }
    const std::string& trouble() const { return trouble_; }  // why reserve returned null
    bool found_no_room() const { return found_no_room_; }    // there may be room later

    ArenaBlock block;
    std::uint64_t bytes = 0;

  private:
    RoomGate& gate_;
    RoomGate::Use use_;
    const RoomGate::Clock::time_point deadline_;
    Spare* const spare_;
    std::string trouble_;
    bool found_no_room_ = false;
};

}  // namespace hocket::cache
