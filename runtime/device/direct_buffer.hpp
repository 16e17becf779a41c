// The buffer of a message between two processes of a host, on a device, as long as the message may go from
// device to device: the sender exports its buffer, the receiver copies from there into its own.
//
// Nothing is enqueued before all that was on the caller's stream at the start has ended. So a copy begins at
// once and ends soon, and a start that fails need not wait for long until nobody reads its memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/device/devices.hpp"
#include "runtime/device/exported.hpp"
#include "runtime/device/staging.hpp"
#include "runtime/device/stream_point.hpp"

namespace hocket::device {

// Not thread-safe. If a function has thrown, the object can only be destroyed. Throws hocket::Error (device,
// out_of_memory).
class DirectBuffer {
  public:
    // place: of memory. The first gives null if no other process can open the memory. Throws
    // invalid_argument, too: the stream is being captured.
    static std::unique_ptr<DirectBuffer> to_send(const Buffers& buffers, const Place& place, void* memory,
                                                 std::uint64_t bytes);
    static std::unique_ptr<DirectBuffer> to_receive(const Buffers& buffers, const Place& place, void* memory,
                                                    std::uint64_t bytes);
    // As settle().
    ~DirectBuffer();
    DirectBuffer(const DirectBuffer&) = delete;

    // Whether what was on the caller's stream has ended.
    bool may_be_used() { return point_->has_come(); }

    // To be sent:
    const Exported& exported() const { return *exported_; }

    // To be received. open: false if this process cannot reach the other one's memory. Then copy(), once
    // may_be_used().
    bool open(const Exported& from);
    void copy();
    bool has_copied();

    // Waits up to a second for a copy that is under way. False: it has not ended, and what it reads stays
    // open for ever.
    bool settle() noexcept;

    // The same buffer by way of the host, from now on.
    std::unique_ptr<Staging> stage() const;

    // Whether the next step is the device's.
    bool is_waiting() const;
    std::string awaited() const;  // for people

  private:
    DirectBuffer(const Buffers& buffers, const Place& place, void* memory, std::uint64_t bytes,
                 const char* verb);
    void follow_stream();
    void end_copy();

    const Buffers buffers_;
    const Place place_;
    void* const memory_;
    const std::uint64_t bytes_;
    const std::string doing_;
    Queues& queues_;
    std::optional<StreamPoint> point_;
    std::optional<Exported> exported_;
    Mappings::Mapping* from_ = nullptr;
    std::uint64_t offset_ = 0;  // in from_
    bool has_copied_ = false;
    Stream copies_ = nullptr;  // not null while a copy is under way
};

}  // namespace hocket::device
