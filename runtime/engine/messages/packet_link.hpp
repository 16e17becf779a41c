// Carries packets between this rank and another one, in both directions, in order. A packet is taken from the
// link only while somebody waits for one; until then it stays where it is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/engine/messages/packet.hpp"

namespace hocket::engine {

struct MessageRequest;

// Takes the packets that come.
class PacketInbox {
  public:
    virtual void take(int peer, const PacketHeader& header, const std::byte* payload) = 0;

  protected:
    ~PacketInbox() = default;
};

enum class Sent : std::uint8_t {
    no_room,    // not yet: try again
    under_way,  // the payload was copied; the request given with it ends later
    done
};

class PacketLink {
  public:
    virtual ~PacketLink() = default;

    // request: ends when the packet has been sent; may be null.
    virtual Sent send(const PacketHeader& header, const std::byte* payload, std::size_t bytes,
                      MessageRequest* request) = 0;

    // Gives the inbox the packets that have come. is_awaited: at least one more is certain to come.
    // Returns true if any came.
    virtual bool poll(bool is_awaited) = 0;

    // Whether a send finds no room until a packet comes from the other side.
    virtual bool waits_for_credit() const { return false; }

    // Whether nothing outside this process can still read or write the link's own memory.
    virtual bool is_quiet() const { return true; }

    // place_of: where the other rank finds the buffer; 0 if it cannot reach it. at: the opposite.
    virtual std::uint64_t place_of(const void*, std::size_t) const { return 0; }
    virtual std::byte* at(std::uint64_t, std::size_t) const { return nullptr; }

    // Whether both ranks are on one host, so that their devices may copy from each other.
    virtual bool may_go_direct() const { return false; }
    // Around a copy on a device from the other rank's memory. False: that memory is not to be read any more.
    virtual bool begin_pull() { return false; }
    virtual void end_pull() {}

    // Whether accepted messages come as `piece` packets; otherwise the fabric carries them as they are.
    virtual bool carries_pieces() const = 0;
};

}  // namespace hocket::engine
