// Packets that two ranks exchange about the messages between them.
//
// A short message is sent whole, in one packet (eager). A longer one is offered, and sent when its receive
// has been started (rendezvous). If its source or its destination is memory that both ranks can reach, it is
// copied directly from or to there. Otherwise the link carries it (packet_link.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

namespace hocket::engine {

enum class PacketKind : std::uint8_t {
    // From the sender. The first three kinds are matched with receives, in their order.
    whole,  // the message is in the packet
    offer,
    device_offer,  // an offer of memory of a device; the packet holds a device::Exported
    piece,         // the next piece of a message that was accepted
    given,         // the receiver's buffer holds all of it
    // From the receiver.
    accept,  // the sender may send it now
    taken,   // the receiver has fetched all of it, and no longer reads it
    credit,  // this many more packets of the first three kinds may be under way
};

struct PacketHeader {
    PacketKind kind = PacketKind::whole;
    std::uint8_t element = 0;  // bytes of one element
    std::uint16_t reserved = 0;
    std::int32_t tag = 0;
    std::uint64_t bytes = 0;     // of the message; in a credit: the number of packets
    std::uint64_t sequence = 0;  // of an offered message, among those from its sender to its receiver
    std::uint64_t place = 0;     // offer, accept: the buffer's place for the other rank; 0: out of reach
};

// Chosen so that providers send a packet in one step (some of libfabric's do up to 4 KiB).
inline constexpr std::size_t longest_whole = 4000;
inline constexpr std::size_t longest_piece = 16 * 1024;

}  // namespace hocket::engine
