// Tagged messages between the ranks of a communicator, over TCP or an endpoint of libfabric. All calls from
// one thread at a time. Nothing here blocks except connect() and wait().
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/fabric/segments.hpp"
#include "runtime/net/socket.hpp"

namespace hocket::transport {

// A message in flight. Belongs to the caller, who keeps it at its address until poll() returns it.
struct Message {
    alignas(16) std::byte provider_context[64];  // libfabric's fi_context2
    void* user = nullptr;                        // the caller's, as is
    int kind = 0;

    // Fabric's own, of libfabric's providers.
    std::span<const Segment> segments;  // to be filled; of a message that is sent: none
    int peer = -1;
    std::unique_ptr<std::byte[]> bounce;  // the whole message, where the provider takes fewer segments
};

struct Completion {
    Message* message = nullptr;
    bool ok = false;
    std::string error;           // !ok: the provider's words
    std::size_t bytes = 0;       // received
    std::uint32_t checksum = 0;  // received: what the sender gave to send()
    bool truncated = false;      // the message was longer than its segments
};

class Fabric {
  public:
    virtual ~Fabric() = default;

    virtual std::string provider() const = 0;       // "tcp", or libfabric's name: "tcp;ofi_rxm"
    virtual std::string why() const = 0;            // what speaks for it, for people
    virtual std::string local_address() const = 0;  // an opaque blob, to be given to the other ranks

    // addresses[r] is rank r's local_address(). Once, before the first message. All ranks at the same time.
    // Throws transport, timeout, and what the patience does.
    virtual void connect(std::span<const std::string> addresses, const Patience& patience) = 0;

    // Start a message. False: the provider has no room now; poll() and try again, with the same Message.
    // `checksum` travels with the message (remote CQ data) and tells the receiver what the sender thinks the
    // operation is. Throws transport. tag < 2^63; messages with the same peer and tag match in order.
    // segments: one or more, and on both sides divided as is convenient there: what travels is their bytes,
    // one after the other. The list itself and the buffers stay untouched until the completion.
    virtual bool send(int peer, std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
                      Message& message) = 0;
    virtual bool receive(int peer, std::uint64_t tag, std::span<const Segment> segments,
                         Message& message) = 0;

    // Drives the provider and takes what is complete; returns how many. Never blocks.
    virtual std::size_t poll(std::span<Completion> completions) = 0;

    // Sleeps until poll() may find something, one of `others` has an event, or the time is over: on the
    // provider's file descriptor where it has one (10 ms at a time), else in growing naps of at most 200 us.
    // May return early. Whoever polls in a loop instead must sched_yield(): its peer may wait for the same
    // core.
    virtual void wait(std::span<pollfd> others, std::chrono::microseconds at_most) = 0;

    // After a failure: gives up all messages in flight. On return the provider touches no buffer any more,
    // and nothing but destruction may follow. Bounded. Over rxm (ofi+tcp) with messages in flight the
    // provider's objects stay in memory, with their sockets, until the process ends: libfabric 1.17 cannot
    // close them safely. Nobody drives them any more (FI_PROGRESS_MANUAL), so nothing is moved.
    virtual void abandon() = 0;
};

}  // namespace hocket::transport
