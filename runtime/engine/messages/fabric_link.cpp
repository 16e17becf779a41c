#include "runtime/engine/messages/fabric_link.hpp"

#include <cstring>

#include "runtime/engine/messages/message_request.hpp"

namespace hocket::engine {
namespace {

// Collectives use the other bits of a tag (graph_run.cpp).
constexpr int bits_of_collectives = transport::tag_bits - 2;
constexpr std::uint64_t packet_tag = std::uint64_t{1} << (bits_of_collectives + 1),
                        body_tag = packet_tag | std::uint64_t{1} << bits_of_collectives;
constexpr std::uint64_t sequences = std::uint64_t{1} << bits_of_collectives;  // they repeat long after a
                                                                              // message is over

}  // namespace

FabricLink::FabricLink(transport::Fabric& fabric, int peer, PacketInbox& inbox)
    : fabric_(fabric), peer_(peer), inbox_(inbox) {
    incoming_.link = this;
    incoming_.message.user = &incoming_;
    incoming_.message.kind = incoming_packet;
    incoming_.segment = {incoming_.bytes, sizeof incoming_.bytes};
}

std::uint64_t FabricLink::tag_of_body(std::uint64_t sequence) {
    return body_tag | sequence % sequences;
}

FabricLink::Parcel* FabricLink::free_parcel() {
    if (!free_.empty()) return free_.back();
    if (parcels_.size() == most_parcels) return nullptr;
    free_.reserve(parcels_.size() + 1);
    Parcel& made = *parcels_.emplace_back(std::make_unique<Parcel>());
    made.link = this;
    made.message.user = &made;
    made.message.kind = outgoing_packet;
    free_.push_back(&made);
    return &made;
}

Sent FabricLink::send(const PacketHeader& header, const std::byte* payload, std::size_t bytes,
                      MessageRequest* request) {
    if (takes_credit(header.kind) && credit_ == 0) return Sent::no_room;
    Parcel* const parcel = free_parcel();
    if (!parcel) return Sent::no_room;
    std::memcpy(parcel->bytes, &header, sizeof header);
    if (bytes > 0) std::memcpy(parcel->bytes + sizeof header, payload, bytes);
    parcel->kind = header.kind;
    parcel->request = request;
    parcel->segment = {parcel->bytes, sizeof header + bytes};
    if (!fabric_.send(peer_, packet_tag, 0, {&parcel->segment, 1}, parcel->message)) return Sent::no_room;
    free_.pop_back();
    if (takes_credit(header.kind)) --credit_;
    return Sent::under_way;
}

void FabricLink::sent(Parcel& parcel) {
    free_.push_back(&parcel);
}

bool FabricLink::poll(bool is_awaited) {
    if (owed_ >= credit_back_after &&
        send({.kind = PacketKind::credit, .bytes = owed_}, nullptr, 0, nullptr) != Sent::no_room)
        owed_ = 0;
    if (is_awaited && !is_asked_for_)
        is_asked_for_ = fabric_.receive(peer_, packet_tag, {&incoming_.segment, 1}, incoming_.message);
    return false;  // received() gets incoming packets
}

void FabricLink::received(Parcel& parcel) {
    is_asked_for_ = false;
    PacketHeader header;
    std::memcpy(&header, parcel.bytes, sizeof header);
    if (header.kind == PacketKind::credit) {
        credit_ += header.bytes;
        return;
    }
    if (takes_credit(header.kind)) ++owed_;
    inbox_.take(peer_, header, parcel.bytes + sizeof header);
}

}  // namespace hocket::engine
