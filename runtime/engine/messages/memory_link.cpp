#include "runtime/engine/messages/memory_link.hpp"

#include <cstring>

namespace hocket::engine {

MemoryLink::MemoryLink(LocalPeers& local_peers, int peer, PacketInbox& inbox)
    : local_peers_(local_peers),
      peer_(peer),
      member_(local_peers.member_of(peer)),
      inbox_(inbox),
      out_(*reinterpret_cast<Ring*>(local_peers.mailbox(member_, local_peers.self()))),
      in_(*reinterpret_cast<Ring*>(local_peers.mailbox(local_peers.self(), member_))) {}

Sent MemoryLink::send(const PacketHeader& header, const std::byte* payload, std::size_t bytes,
                      MessageRequest*) {
    if (written_ - taken_there_ == slots) {
        taken_there_ = out_.taken.load(std::memory_order_acquire);
        if (written_ - taken_there_ == slots) return Sent::no_room;
    }
    Slot& slot = out_.slots[written_ % slots];
    slot.header = header;
    if (bytes > 0) std::memcpy(slot.payload, payload, bytes);
    local_peers_.publish(out_.written, ++written_);
    return Sent::done;
}

bool MemoryLink::poll(bool is_awaited) {
    if (!is_awaited) return false;
    const std::uint64_t written = in_.written.load(std::memory_order_acquire);
    if (taken_ == written) return false;
    while (taken_ != written) {
        const Slot& slot = in_.slots[taken_ % slots];
        inbox_.take(peer_, slot.header, slot.payload);
        local_peers_.publish(in_.taken, ++taken_);
    }
    return true;
}

// Returns the buffer's offset in the slice plus one.
std::uint64_t MemoryLink::place_of(const void* buffer, std::size_t bytes) const {
    const auto offset = local_peers_.window().offset_of(buffer, bytes);
    return offset ? *offset + 1 : 0;
}

std::byte* MemoryLink::at(std::uint64_t place, std::size_t bytes) const {
    return local_peers_.window().at(member_, place - 1, bytes);
}

}  // namespace hocket::engine
