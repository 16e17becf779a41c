// A send or a receive, which the caller will wait for.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "runtime/base/error.hpp"
#include "runtime/base/request.hpp"
#include "runtime/device/direct_buffer.hpp"
#include "runtime/device/staging.hpp"
#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::engine {

// Values of transport::Message::kind: for messages of collectives, and for all others.
enum MessageKind : int { of_collective = 0, outgoing_packet, incoming_packet, body };

enum class Direction : std::uint8_t { send, receive };

// The peer of a receive that accepts any rank. Its value is far from any number that a program passes as a
// rank by mistake.
inline constexpr int any_rank = std::numeric_limits<int>::min();

struct MessageStart {
    Direction direction = Direction::send;
    int peer = 0, tag = 0;      // a receive from any_rank gets its peer when it is matched
    std::byte* data = nullptr;  // a send only reads it; on a device while there is a DirectBuffer
    std::uint64_t bytes = 0;
    std::uint32_t element = 1;       // bytes of one element
    std::int32_t* source = nullptr;  // receives the peer's rank with the message; null: not wanted

    std::uint64_t count() const { return bytes / element; }
};

struct MessageRequest : Request {
    using Clock = std::chrono::steady_clock;
    MessageRequest() : Request(Type::message) {}

    // Returns in_progress until the request has ended, in success or failure.
    Status status_of_all() const { return status; }

    MessageStart start;
    Status status = Status::success;
    bool is_lent = false;  // to a caller that has not yet collected the result
    bool is_matched = false;
    std::uint64_t order = 0;  // of the start: an earlier receive is matched first
    std::uint64_t note = 0;   // its number in record::Flight
    Clock::time_point deadline{};
    // For a buffer on a device, one of the two is not null; for other buffers, both are null. direct: the
    // message goes directly between devices, or its way is not decided yet.
    std::unique_ptr<device::Staging> staging;
    std::unique_ptr<device::DirectBuffer> direct;

    // What this rank has to do next for a message that was offered.
    enum class Work : std::uint8_t {
        none,              // nothing, at least until the peer or the fabric has answered
        copy_from_sender,  // as the receiver, which reaches the sender's buffer
        copy_to_receiver,  // as the sender, which reaches the receiver's buffer
        send_body,         // as the sender: the data go through the link or the fabric
        accept,            // as the receiver, which cannot reach that buffer: tell the sender to go on
        pull,              // as the receiver: copy from the sender's device to this rank's
        await_staging,     // as the sender: wait until the device's data are in the staging buffer
    };
    bool is_pulling = false;  // between begin_pull() and end_pull() of the link
    Work work = Work::none;
    std::uint64_t sequence = 0, bytes_moved = 0;
    std::byte* peer_buffer = nullptr;  // the other rank's, to copy from or to; null: out of reach
    transport::Message message;
    transport::Segment segment;
};

}  // namespace hocket::engine
