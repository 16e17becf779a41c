// A buffer on a device, as long as its contents may go from device to device between processes of a host: who
// sends exports its buffer, who receives copies from there into its own.
//
// Nothing is enqueued before all that was on the caller's stream at the start has ended. So a copy begins at
// once and ends soon, and a start that fails need not wait for long until nobody reads its memory.
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

// Not thread-safe. If a function has thrown, the object can only be destroyed. Throws hocket::Error (device,
// out_of_memory).
class DirectBuffer {
  public:
    // place: of memory. name: the argument's. The first gives null if no other process can open the memory.
    // Throws invalid_argument, too: the stream is being captured.
    static std::unique_ptr<DirectBuffer> to_send(const Buffers& buffers, const Place& place,
                                                 const void* memory, std::uint64_t bytes, const char* name);
    static std::unique_ptr<DirectBuffer> to_receive(const Buffers& buffers, const Place& place, void* memory,
                                                    const char* name);
    // As settle().
    ~DirectBuffer();
    DirectBuffer(const DirectBuffer&) = delete;

    // Whether what was on the caller's stream has ended.
    bool may_be_used() { return point_->has_come(); }

    // To be sent:
    const Exported& exported() const { return *exported_; }

    // To be received: first all that is to be copied. open: from what another process exported; false if this
    // one cannot reach it. add: from this process's own memory. Then copy(), once may_be_used().
    bool open(const Exported& from, Stretch stretch, std::uint64_t to = 0);
    void add(const void* from, std::uint64_t bytes, std::uint64_t to) {
        pieces_.push_back({nullptr, address_of(from), bytes, to});
    }
    void copy();
    bool has_copied();

    // Waits up to a second for copies that are under way. False: they have not ended, and what they read
    // stays open for ever.
    bool settle() noexcept;

    // For the same memory by way of the host, from now on.
    const Buffers& buffers() const { return buffers_; }
    const StreamPoint& point() const { return *point_; }

    // What this buffer may wait for, as far as is known; and in words, for people.
    bool awaits_stream() const { return !point_->is_known_to_have_come(); }
    bool is_open() const { return !pieces_.empty(); }  // there is something to be copied, or under way
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
    std::vector<Piece> pieces_;  // to be copied, or under way
    bool has_copied_ = false, is_lost_ = false;
    Stream copies_ = nullptr;  // not null while copies are under way
};

}  // namespace hocket::device
