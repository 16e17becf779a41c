// A device buffer whose contents may be copied directly from device to device between processes of a host:
// the sender exports its buffer, and the receiver copies from it into its own.
//
// No copy is enqueued before all work that was on the caller's stream at the start has ended. So a copy
// begins at once and ends soon, and a start that fails need not wait long until no copy reads its memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/device/devices.hpp"
#include "runtime/device/exported.hpp"
#include "runtime/device/staging.hpp"
#include "runtime/device/stream_point.hpp"

namespace hocket::device {

// Not thread-safe. After a function has thrown, the object can only be destroyed. Throws hocket::Error
// (device, out_of_memory).
class DirectBuffer {
  public:
    // place: of memory. name: the argument's name. to_send() returns null if no other process can open the
    // memory. Both also throw invalid_argument if the stream is being captured.
    static std::unique_ptr<DirectBuffer> to_send(const Buffers& buffers, const Place& place,
                                                 const void* memory, std::uint64_t bytes, const char* name);
    static std::unique_ptr<DirectBuffer> to_receive(const Buffers& buffers, const Place& place, void* memory,
                                                    const char* name);
    // Calls settle().
    ~DirectBuffer();
    DirectBuffer(const DirectBuffer&) = delete;

    // Returns true once the work that was on the caller's stream has ended.
    bool may_be_used() { return point_->has_come(); }

    // For a buffer to send:
    const Exported& exported() const { return *exported_; }

    // For a buffer to receive into: first name all pieces to copy. open() adds a piece that another process
    // exported, and returns false if this process cannot reach it; add() adds a piece of this process's own
    // memory. Then call copy(), once may_be_used().
    bool open(const Exported& from, Stretch stretch, std::uint64_t to = 0);
    void add(const void* from, std::uint64_t bytes, std::uint64_t to) {
        pieces_.push_back({nullptr, address_of(from), bytes, to});
    }
    void copy();
    bool has_copied();

    // Waits up to a second for copies that are under way. Returns false if they have not ended; the memory
    // that they read then stays open for ever.
    bool settle() noexcept;

    // For staging the same memory through the host from now on.
    const Buffers& buffers() const { return buffers_; }
    const StreamPoint& point() const { return *point_; }

    // Say, as far as is known, what this buffer may wait for; awaited() does so in words, for people.
    bool awaits_stream() const { return !point_->is_known_to_have_come(); }
    bool is_open() const { return !pieces_.empty(); }  // pieces are to be copied, or being copied
    bool is_copying() const { return copies_ != nullptr; }
    std::string awaited() const;

  private:
    struct Piece {
        Mappings::Mapping* mapping;  // null: this process's own memory
        DevicePointer from;
        std::uint64_t bytes, to;
    };

    static DevicePointer address_of(const void* memory) {
        return static_cast<DevicePointer>(reinterpret_cast<std::uintptr_t>(memory));
    }
    DirectBuffer(const Buffers& buffers, const Place& place, const void* memory, const char* name,
                 const char* verb);
    void follow_stream();
    void end_copy();
    void give_pieces_back();

    const Buffers buffers_;
    const void* const memory_;
    const std::string doing_;
    Queues& queues_;
    std::optional<StreamPoint> point_;
    std::optional<Exported> exported_;
    std::vector<Piece> pieces_;  // to be copied, or being copied
    bool has_copied_ = false, is_lost_ = false;
    Stream copies_ = nullptr;  // not null while copies are under way
};

}  // namespace hocket::device
