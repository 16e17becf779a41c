// What two ranks tell each other about the messages between them.
//
// A short message travels whole, in a packet. A longer one is offered, and moves when its receive is there:
// straight from where it lies, or straight to where it goes, if that is memory that both can reach; else as
// the receiver was told to expect it (packet_link.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace hocket::engine {

enum class PacketKind : std::uint8_t {
    // From the sender. These two are matched with receives, in their order.
    whole,  // the message is in the packet
    offer,
    piece,  // the next piece of a message that was accepted
    given,  // all of it is where the receiver wanted it
    // From the receiver.
    accept,  // send it now
    taken,   // it has fetched all of it
    credit,  // so many more packets of the first two kinds may be on their way
};

struct PacketHeader {
    PacketKind kind = PacketKind::whole;
    std::uint8_t element = 0;  // bytes of one
    std::uint16_t reserved = 0;
    std::int32_t tag = 0;
    std::uint64_t bytes = 0;     // of the message; credit: packets
    std::uint64_t sequence = 0;  // an offered message's, among those of its sender for its receiver
    std::uint64_t place = 0;     // offer, accept: where the buffer is for the other rank; 0: out of its reach
};

// So that a packet is no longer than what providers send without further ado (4 KiB with some of
// libfabric's).
inline constexpr std::size_t longest_whole = 4000;
inline constexpr std::size_t longest_piece = 16 * 1024;

}  // namespace hocket::engine
