// What two ranks tell each other about the messages between them.
//
// A short message travels whole, in a packet. A longer one is offered, and moves when its receive has been
// started. If its place or its destination is memory that both ranks can reach, it is copied straight from or
// to there. Otherwise it travels as the link carries it (packet_link.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace hocket::engine {

enum class PacketKind : std::uint8_t {
    // From the sender. The first three are matched with receives, in their order.
    whole,  // the message is in the packet
    offer,
    device_offer,  // an offer of memory of a device; the packet holds a device::Exported
    piece,         // the next piece of a message that was accepted
    given,         // all of it is where the receiver wanted it
    // From the receiver.
    accept,  // the sender may send it now
    taken,   // the receiver has fetched all of it, and reads no more of it
    credit,  // this many more packets of the first kinds may be on their way
};

struct PacketHeader {
    PacketKind kind = PacketKind::whole;
    std::uint8_t element = 0;  // bytes of one
    std::uint16_t reserved = 0;
    std::int32_t tag = 0;
    std::uint64_t bytes = 0;     // of the message; in a credit: how many packets
    std::uint64_t sequence = 0;  // an offered message's, among those of its sender for its receiver
    std::uint64_t place = 0;  // offer, accept: where the other rank finds the buffer; 0: it cannot reach it
};

// Chosen so that providers send a packet without further steps (some of libfabric's do up to 4 KiB).
inline constexpr std::size_t longest_whole = 4000;
inline constexpr std::size_t longest_piece = 16 * 1024;

}  // namespace hocket::engine
