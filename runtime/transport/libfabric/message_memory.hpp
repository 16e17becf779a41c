// Where libfabric's provider finds the bytes of messages: in the caller's segments, registered if the
// provider asks for that, or in a copy. Where the provider carries no data beside messages (remote CQ data),
// the checksum goes ahead of the bytes, as the message's header.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "runtime/transport/fabric/fabric.hpp"
#include "runtime/transport/libfabric/provider.hpp"
#include "runtime/transport/libfabric/registrations.hpp"

namespace hocket::transport {

class MessageMemory {
  public:
    enum class Direction { send, receive };

    // Messages with more segments are copied, even if the provider would take more.
    static constexpr std::size_t most_entries = 16;

    // What the provider is given. Descriptors are those of registered memory.
    struct Places {
        std::array<iovec, most_entries> entries;
        std::array<void*, most_entries> descriptors{};
        std::size_t count = 0;

        Places part(std::size_t begin, std::size_t bytes) const;
    };

    MessageMemory() = default;
    // The objects must live until close().
    MessageMemory(const fi_info& info, RmaWay rma, const EndpointObjects& objects);

    // Returns true if a message of this length goes by RMA, to a rank that can receive so: one whose memory
    // is registered, and not copied, where registrations are needed.
    bool is_written(std::size_t bytes) const {
        return rma_ != RmaWay::none && bytes > Registrations::slot_bytes;
    }

    // Of the header, of a message that is sent or received under its tag; 0 if there is none.
    std::size_t header_bytes() const { return header_bytes_; }

    // Both return nullopt if the provider has no room now. What is held for the message is kept in
    // Message::held. They throw Error(transport). find: the bytes alone. find_tagged: the header, with the
    // checksum if the message is sent, and the bytes.
    std::optional<Places> find(std::span<const Segment> segments, Direction direction, Message& message);
    std::optional<Places> find_tagged(std::span<const Segment> segments, Direction direction,
                                      Message& message, std::uint32_t checksum = 0);

    // Call it for a receive that has ended, and has taken what its sender found_tagged: takes the header off.
    void take_header(Completion& completion) const;

    // Lets other ranks write to the places that a receive has, until the message ends, and describes the
    // first of them. Returns false if the provider has no room now; then call it again. Throws
    // Error(transport).
    bool expose(Message& message, const Places& places, std::span<RemotePlace> described);

    // Call it if the provider has refused the message. Only a copy of several segments is kept for the next
    // attempt, in which one segment may have other bytes.
    void refused(Message& message);

    // Call once for a message that has ended, before its completion is passed on: copies what was received
    // to its segments, and lets go of what was held.
    void end(const Completion& completion);

    Registrations& registrations() { return registrations_; }

    void close() { registrations_.close(); }  // after the endpoint, before the domain
    void keep_for_ever() { registrations_.keep_for_ever(); }

  private:
    struct Held;

    bool prepare(std::span<const Segment> segments, Direction direction, std::size_t header,
                 Message& message);
    std::shared_ptr<Held> hold(std::span<const Segment> segments, std::size_t bytes, Direction direction,
                               std::size_t header);
    bool register_all(std::span<const Segment> segments, std::size_t bytes, Direction direction, Held& held);
    std::uint64_t access_of(std::size_t bytes, Direction direction) const;
    void let_go(Held& held);
    [[noreturn]] void refuse_size(std::size_t bytes, std::size_t most) const;
    std::size_t most_segments(Direction direction) const {
        return direction == Direction::send ? most_sent_segments_ : most_received_segments_;
    }

    std::string provider_;
    RmaWay rma_ = RmaWay::none;
    std::size_t header_bytes_ = 0;
    std::size_t most_sent_segments_ = 1, most_received_segments_ = 1;  // of one message to the provider
    std::size_t most_bytes_ = 0;                                       // of a message
    Registrations registrations_;
};

}  // namespace hocket::transport
