// Sends tagged messages between the ranks of a communicator, over TCP or an endpoint of libfabric. Only one
// thread may call at a time. Only connect() and wait() block.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/transport/fabric/segments.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

// Tags of messages are less than 2 to this power. cxi takes tags of 48 bits, and three are libfabric's part's
// own (remote_writes.hpp).
inline constexpr int tag_bits = 44;

// A message in flight. The caller owns it, and must keep it at its address until poll() returns it.
struct Message {
    alignas(16) std::byte provider_context[64];  // libfabric's fi_context2
    void* user = nullptr;                        // for the caller; not changed
    int kind = 0;

    // For Fabric's own use, with libfabric's providers:
    std::span<const Segment> segments;  // the destination of a received message; empty for a sent one
    int peer = -1;
    std::shared_ptr<void> held;  // what stands for the segments with the provider, until the completion
};

struct Completion {
    Message* message = nullptr;
    bool ok = false;
    std::string error;           // if !ok: the provider's words
    std::size_t bytes = 0;       // received
    std::uint32_t checksum = 0;  // received: the sender's argument of send()
    bool truncated = false;      // the message was longer than its segments
};

class Fabric {
  public:
    virtual ~Fabric() = default;

    virtual std::string provider() const = 0;  // "tcp", or libfabric's name: "tcp;ofi_rxm"
    virtual std::string why() const = 0;       // the reason for this provider, for people
    // Connections that others have taken over from since connect(), for people; "" if there are none.
    // Thread-safe. The text stays valid as long as the fabric.
    virtual const std::string& lost_rails() const {
        static const std::string none;
        return none;
    }
    virtual std::string local_address() const = 0;  // an opaque blob to be passed to the other ranks
    // The address by which a connected rank is reached, for people; "" where the provider doesn't tell.
    virtual std::string peer_address(int /*peer*/) const { return ""; }

    // Connects the ranks; addresses[r] is rank r's local_address(). All ranks call it at the same time, once,
    // before the first message. Throws transport, timeout, and what the patience throws.
    virtual void connect(std::span<const std::string> addresses, const Patience& patience) = 0;

    // Start a message. They return false if the provider has no room now; then call poll() and try again with
    // the same Message; the bytes of a message of one segment may be others by then. `checksum` is sent with
    // the message (remote CQ data): it tells the receiver which operation the sender is in. Throws transport.
    // tag < 2^tag_bits; messages with the same peer and tag match in order. segments:
    // one or more; each side divides the message as it likes, because only the sequence of bytes is sent. The
    // list itself and the buffers must stay untouched until the completion.
    virtual bool send(int peer, std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
                      Message& message) = 0;
    virtual bool receive(int peer, std::uint64_t tag, std::span<const Segment> segments,
                         Message& message) = 0;

    // Drives the provider and takes completions; returns how many. Never blocks.
    virtual std::size_t poll(std::span<Completion> completions) = 0;

    // Sleeps until poll() may find something, one of `others` has an event, or the time is over. It sleeps on
    // the provider's file descriptor if there is one (10 ms at a time), otherwise for growing times of at
    // most 200 us. It may return early. A caller that polls in a loop instead must call sched_yield(),
    // because its peer may be waiting for the same core.
    virtual void wait(std::span<pollfd> others, std::chrono::microseconds at_most) = 0;

    // Gives up all messages in flight, after a failure. When it returns, the provider no longer touches any
    // buffer, and the object may only be destroyed. It takes a bounded time. Over rxm (ofi+tcp) with messages
    // in flight, the provider's objects and their sockets stay until the process ends, because libfabric 1.17
    // cannot close them safely. They are no longer driven (FI_PROGRESS_MANUAL), so no data are moved.
    virtual void abandon() = 0;
};

}  // namespace hocket::transport
