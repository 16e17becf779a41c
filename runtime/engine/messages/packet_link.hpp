// Carries packets between this rank and another one, in both directions, in order. A packet is taken from the
// link only while a request waits for one; until then it stays in the link.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/engine/messages/packet.hpp"

namespace hocket::engine {

struct MessageRequest;

// Takes the packets that arrive.
class PacketInbox {
  public:
    virtual void take(int peer, const PacketHeader& header, const std::byte* payload) = 0;

  protected:
    ~PacketInbox() = default;
};

enum class Sent : std::uint8_t {
    no_room,    // not yet: try again
    under_way,  // the payload was copied; the request passed with it ends later
    done
};

class PacketLink {
  public:
    virtual ~PacketLink() = default;

    // request: ends when the packet has been sent; may be null.
    virtual Sent send(const PacketHeader& header, const std::byte* payload, std::size_t bytes,
                      MessageRequest* request) = 0;

    // Passes the packets that have arrived to the inbox. is_awaited: at least one more is certain to come.
    // Returns true if any arrived.
    virtual bool poll(bool is_awaited) = 0;

    // Returns true if sends find no room until a packet comes from the other side.
    virtual bool waits_for_credit() const { return false; }

    // Returns true if nothing outside this process can still read or write the link's own memory.
    virtual bool is_quiet() const { return true; }

    // place_of: returns the buffer's place for the other rank; 0 if that rank cannot reach it. at: returns
    // the buffer at a place that the other rank gave.
    virtual std::uint64_t place_of(const void*, std::size_t) const { return 0; }
    virtual std::byte* at(std::uint64_t, std::size_t) const { return nullptr; }

    // Returns true if both ranks are on one host, so that their devices may copy from each other.
    virtual bool may_go_direct() const { return false; }
    // Enclose a copy on a device from the other rank's memory. begin_pull() returns false if that memory must
    // no longer be read.
    virtual bool begin_pull() { return false; }
    virtual void end_pull() {}

    // Returns true if accepted messages are sent as `piece` packets; otherwise the fabric carries them as
    // they are.
    virtual bool carries_pieces() const = 0;
};

}  // namespace hocket::engine
