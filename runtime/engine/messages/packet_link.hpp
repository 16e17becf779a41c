// The way of packets between this rank and another one, in both directions, in order. They are taken from it
// only while somebody waits for one: what nobody waits for stays where it is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/engine/messages/packet.hpp"

namespace hocket::engine {

struct MessageRequest;

// Takes what comes.
class PacketInbox {
  public:
    virtual void take(int peer, const PacketHeader& header, const std::byte* payload) = 0;

  protected:
    ~PacketInbox() = default;
};

enum class Sent : std::uint8_t {
    no_room,    // not yet: try again
    under_way,  // its payload was copied; the request that was given with it ends later
    done
};

class PacketLink {
  public:
    virtual ~PacketLink() = default;

    // request: null, or the one that ends with it.
    virtual Sent send(const PacketHeader& header, const std::byte* payload, std::size_t bytes,
                      MessageRequest* request) = 0;

    // Gives the inbox what has come. is_awaited: at least one more packet is certain to come.
    // True if anything did.
    virtual bool poll(bool is_awaited) = 0;

    // Whether a send finds no room before a packet comes from the other side.
    virtual bool waits_for_credit() const { return false; }

    // Whether nothing outside this process may still read or write the link's own memory.
    virtual bool is_quiet() const { return true; }

    // Where the other rank finds the buffer, if it can reach it, else 0; and the other way round.
    virtual std::uint64_t place_of(const void*, std::size_t) const { return 0; }
    virtual std::byte* at(std::uint64_t) const { return nullptr; }

    // Whether accepted messages come as `piece` packets; else the fabric carries them as they are.
    virtual bool carries_pieces() const = 0;
};

}  // namespace hocket::engine
