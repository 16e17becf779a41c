// Packets between two ranks that share no memory.
//
// Providers hold only so many messages that nobody has asked for, and collectives need some of that room. So
// a sender has credit: only a few packets that are matched with receives may be on their way. The fabric is
// asked for a packet only if one is certain to come, so that no receive is left open between operations.
#pragma once

#include <memory>
#include <vector>

#include "runtime/engine/messages/packet_link.hpp"
#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::engine {

class FabricLink : public PacketLink {
  public:
    // In transport::Message::user, if its `kind` says that it is a packet.
    struct Parcel {
        transport::Message message;
        FabricLink* link = nullptr;
        MessageRequest* request = nullptr;  // ends when the parcel has been sent
        PacketKind kind = PacketKind::whole;
        transport::Segment segment;
        alignas(16) std::byte bytes[sizeof(PacketHeader) + longest_whole];
    };

    FabricLink(transport::Fabric& fabric, int peer, PacketInbox& inbox);

    Sent send(const PacketHeader& header, const std::byte* payload, std::size_t bytes,
              MessageRequest* request) override;
    bool poll(bool is_awaited) override;
    bool waits_for_credit() const override { return credit_ == 0; }
    bool is_quiet() const override { return !is_asked_for_ && free_.size() == parcels_.size(); }
    bool carries_pieces() const override { return false; }

    int peer() const { return peer_; }
    // Called when the fabric is done with the parcel.
    void sent(Parcel& parcel);
    void received(Parcel& parcel);

    // The tag of the message itself, between the two ranks of the link.
    static std::uint64_t tag_of_body(std::uint64_t sequence);

  private:
    static constexpr std::uint64_t all_credit = 32, credit_back_after = all_credit / 2;
    static constexpr std::size_t most_parcels = 64;
    static bool takes_credit(PacketKind kind) {
        return kind == PacketKind::whole || kind == PacketKind::offer;
    }

    Parcel* free_parcel();

    transport::Fabric& fabric_;
    const int peer_;
    PacketInbox& inbox_;
    std::uint64_t credit_ = all_credit;
    std::uint64_t owed_ = 0;  // packets taken since the other side last got credit
    Parcel incoming_;
    bool is_asked_for_ = false;
    std::vector<std::unique_ptr<Parcel>> parcels_;
    std::vector<Parcel*> free_;
};

}  // namespace hocket::engine
