// Carries packets between two ranks of a host, through one ring for each direction in the receiver's slice of
// the window.
#pragma once

#include <atomic>

#include "runtime/engine/messages/packet_link.hpp"
#include "runtime/engine/run/local_peers.hpp"

namespace hocket::engine {

class MemoryLink : public PacketLink {
  public:
    MemoryLink(LocalPeers& local_peers, int peer, PacketInbox& inbox);

    Sent send(const PacketHeader& header, const std::byte* payload, std::size_t bytes,
              MessageRequest* request) override;
    bool poll(bool is_awaited) override;
    std::uint64_t place_of(const void* buffer, std::size_t bytes) const override;
    std::byte* at(std::uint64_t place, std::size_t bytes) const override;
    bool may_go_direct() const override { return true; }
    bool begin_pull() override { return local_peers_.begin_pull(member_); }
    void end_pull() override { local_peers_.end_pull(); }
    bool carries_pieces() const override { return true; }

  private:
    // A megabyte under way would not fit into the caches; with far less, the two ranks would wait for each
    // other.
    static constexpr std::uint64_t slots = 16;
    struct alignas(64) Slot {
        PacketHeader header;
        alignas(64) std::byte payload[longest_piece];
    };
    struct Ring {
        alignas(128) std::atomic<std::uint64_t> written;
        alignas(128) std::atomic<std::uint64_t> taken;
        Slot slots[MemoryLink::slots];
    };
    static_assert(sizeof(Ring) <= LocalPeers::mailbox_bytes);
    static_assert(longest_whole <= longest_piece);

    LocalPeers& local_peers_;
    const int peer_;
    const Member member_;
    PacketInbox& inbox_;
    Ring &out_, &in_;
    std::uint64_t written_ = 0, taken_ = 0;  // packets that this rank has written and taken
    std::uint64_t taken_there_ = 0;          // packets taken from out_, as far as this rank knows
};

}  // namespace hocket::engine
