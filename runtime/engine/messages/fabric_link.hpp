// Carries packets between two ranks that share no memory.
//
// Providers hold only a limited number of unexpected messages, and collectives need some of that room. So the
// receiver gives the sender credit: only a few packets that are to be matched with receives may be under way.
// A receive is posted to the fabric only if a packet is certain to come, so that no receive stays open
// between operations.
#pragma once

#include <memory>
#include <vector>

#include "runtime/engine/messages/packet_link.hpp"
#include "runtime/transport/fabric/fabric.hpp"

namespace hocket::engine {

class FabricLink : public PacketLink {
  public:
    // Pointed to by transport::Message::user if the message's `kind` says that it is a packet.
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

    // Returns the tag of the message itself, between the two ranks of the link.
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
    std::uint64_t owed_ = 0;  // packets taken since credit was last sent
    Parcel incoming_;
    bool is_asked_for_ = false;
    std::vector<std::unique_ptr<Parcel>> parcels_;
    std::vector<Parcel*> free_;
};

}  // namespace hocket::engine
