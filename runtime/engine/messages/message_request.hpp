// A send or a receive that somebody will wait for.
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

// Values of transport::Message::kind: of a collective's message, and of all others.
enum MessageKind : int { of_collective = 0, outgoing_packet, incoming_packet, body };

enum class Direction : std::uint8_t { send, receive };

// As the peer of a receive. Far from what a program takes for a rank by mistake.
inline constexpr int any_rank = std::numeric_limits<int>::min();

struct MessageStart {
    Direction direction = Direction::send;
    int peer = 0, tag = 0;      // a receive from any_rank has its peer when it is matched
    std::byte* data = nullptr;  // a send only reads it; on a device while there is a DirectBuffer
    std::uint64_t bytes = 0;
    std::uint32_t element = 1;       // bytes of one
    std::int32_t* source = nullptr;  // gets the peer when the message has come; null: nobody asks

    std::uint64_t count() const { return bytes / element; }
};

struct MessageRequest : Request {
    using Clock = std::chrono::steady_clock;
    MessageRequest() : Request(Type::message) {}

    // In progress until it has ended, in success or failure.
    Status status_of_all() const { return status; }

    MessageStart start;
    Status status = Status::success;
    bool is_lent = false;  // to a caller that has not asked for its end yet
    bool is_matched = false;
    std::uint64_t order = 0;  // among the starts: an earlier receive is matched first
    std::uint64_t note = 0;   // its number in record::Flight
    Clock::time_point deadline{};
    // For a buffer on a device one of them is not null; for others, none. direct: not decided yet, or from
    // device to device.
    std::unique_ptr<device::Staging> staging;
    std::unique_ptr<device::DirectBuffer> direct;

    // For a message that was offered.
    enum class Work : std::uint8_t { none, fetch, hand_over, stream, expect, pull, load };
    bool is_pulling = false;  // between begin_pull() and end_pull() of the link
    Work work = Work::none;   // what this rank does for it next
    std::uint64_t sequence = 0, moved = 0;
    std::byte* far = nullptr;  // the other rank's buffer, to copy from or to
    transport::Message message;
    transport::Segment segment;
};

}  // namespace hocket::engine
