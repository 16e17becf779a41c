// A device buffer that goes directly from device to device between processes of a host: its owner exports it,
// or copies into it from memory that another process exported.
//
// No copy is enqueued before all work that was on the caller's stream at the start has ended. So a copy
// begins soon and ends soon, and a start that fails need not wait long until no copy uses its memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/device/copies.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/device/exported.hpp"
#include "runtime/device/stream_point.hpp"

namespace hocket::device {

inline DevicePointer address_of(const void* memory) {
    return static_cast<DevicePointer>(reinterpret_cast<std::uintptr_t>(memory));
}

// Not thread-safe. After a function has thrown, the object can only be destroyed. Throws hocket::Error
// (device, out_of_memory).
class DirectBuffer {
  public:
    // place: of memory. name: the argument's name. verb: the direction of the copies, "to" or "from".
    // exported: the bytes that other processes may use, if any. Returns null if they cannot open the memory.
    // Also throws invalid_argument if the stream is being captured.
    static std::unique_ptr<DirectBuffer> make(const Buffers& buffers, const Place& place, const void* memory,
                                              const char* name, const char* verb,
                                              std::optional<std::uint64_t> exported);
    DirectBuffer(const DirectBuffer&) = delete;

    // Returns true once the work that was on the caller's stream has ended.
    bool may_be_used() { return point_->has_come(); }

    // Returns null unless other processes can open the buffer.
    const Exported* exported() const { return exported_ ? &*exported_ : nullptr; }

    // For a buffer to receive into: open() names the bytes to copy, which another process exported, and
    // returns false if this process cannot reach them. Then call copy(), once may_be_used().
    bool open(const Exported& from, std::uint64_t bytes);
    void copy();
    bool has_copied();

    // Waits up to a second for a copy that is under way. Returns false if it has not ended; the memory that
    // it reads then stays open for ever.
    bool settle() noexcept { return copies_.settle(); }

    // For staging the same memory through the host from now on.
    const Buffers& buffers() const { return buffers_; }
    const StreamPoint& point() const { return *point_; }
    Queues& queues() const { return queues_; }  // of the memory's context

    // Say, as far as is known, what this buffer may wait for; awaited() does so in words, for people.
    bool awaits_stream() const { return !point_->is_known_to_have_come(); }
    bool is_open() const { return piece_ && !has_copied_; }  // it is to be copied into, or being copied into
    std::string awaited() const;

  private:
    struct Piece {
        DevicePointer from;
        std::uint64_t bytes;
    };

    DirectBuffer(const Buffers& buffers, const Place& place, const void* memory, const char* name,
                 const char* verb);
    void follow_stream();

    const Buffers buffers_;
    const void* const memory_;
    const std::string doing_;
    Queues& queues_;
    std::optional<StreamPoint> point_;
    std::optional<Exported> exported_;
    Copies copies_;
    std::optional<Piece> piece_;
    bool has_copied_ = false;
};

}  // namespace hocket::device
