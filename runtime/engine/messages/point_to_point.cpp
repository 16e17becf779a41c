#include "runtime/engine/messages/point_to_point.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "runtime/engine/messages/fabric_link.hpp"
#include "runtime/engine/messages/memory_link.hpp"
#include "runtime/engine/messages/stage_message.hpp"

namespace hocket::engine {
namespace {

// Bytes that are copied before everything else is polled again.
constexpr std::uint64_t copied_at_once = 256 * 1024;
// Receives posted for one peer at a time, so that its absence cannot fill the provider's queue of receives.
constexpr int most_posted_bodies = 32;

const FabricLink::Parcel& parcel_of(const transport::Message& message) {
    return *static_cast<const FabricLink::Parcel*>(message.user);
}

// Returns the payload's size, without the header, of a packet that is matched with a receive.
std::uint64_t payload_bytes(const PacketHeader& header) {
    if (header.kind == PacketKind::whole) return header.bytes;
    return header.kind == PacketKind::device_offer ? sizeof(device::Exported) : 0;
}

void copy_bytes(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, bytes);
}

}  // namespace

PointToPoint::PointToPoint(int rank, int ranks, LocalPeers* local_peers, transport::Fabric* fabric)
    : rank_(rank), local_peers_(local_peers), fabric_(fabric), peers_(static_cast<std::size_t>(ranks)) {}

PointToPoint::~PointToPoint() = default;

// ---- Requests -----------------------------------------------------------------------------------

MessageRequest& PointToPoint::make(const MessageStart& start) {
    open_.reserve(open_.size() + 1);
    if (released_.empty()) {
        released_.reserve(requests_.size() + 1);
        MessageRequest& made = *requests_.emplace_back(std::make_unique<MessageRequest>());
        made.message.user = &made;
        made.message.kind = body;
        released_.push_back(&made);
    }
    MessageRequest& request = *released_.back();
    released_.pop_back();
    request.start = start;
    request.status = Status::in_progress;
    request.is_lent = true;
    request.is_matched = request.is_pulling = false;
    request.order = started_++;
    request.work = Work::none;
    request.bytes_moved = 0;
    request.segment = {start.data, start.bytes};
    open_.push_back(&request);
    return request;
}

void PointToPoint::release(MessageRequest& request) {
    request.is_lent = false;
    request.staging.reset();
    request.direct.reset();
    released_.push_back(&request);
}

bool PointToPoint::may_go_direct(const MessageStart& start) {
    if (start.peer == any_rank) return false;
    const Peer& with = peer_at(start.peer);
    return start.bytes > longest_whole && with.link && with.link->may_go_direct();
}

void PointToPoint::begin(MessageRequest& request) {
    const MessageStart start = request.start;
    if (start.direction == Direction::send)
        peer_at(start.peer).unannounced_sends.push_back(&request);
    else if (Peer* const from = start.peer == any_rank ? peer_of_earliest(start.tag) : &peer_at(start.peer);
             !from)
        receives_from_any_.push(start.tag, &request);
    else if (const auto arrived = from->unexpected.pop(start.tag))
        match(*from, request, arrived->header, arrived->payload.get());
    else
        from->receives.push(start.tag, &request);
    advance();
}

// Returns the peer whose unreceived message with this tag arrived first; null if there is none. From now on
// this rank listens to all ranks.
PointToPoint::Peer* PointToPoint::peer_of_earliest(int tag) {
    Peer* earliest = nullptr;
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
        Peer& one = peer_at(static_cast<int>(rank));
        const Unexpected* const first = one.unexpected.front(tag);
        if (first && (!earliest || first->order < earliest->unexpected.front(tag)->order)) earliest = &one;
    }
    return earliest;
}

// Takes the receive that was started first, among those that a message from this peer may match.
std::optional<MessageRequest*> PointToPoint::pop_receive(Peer& peer, int tag) {
    MessageRequest *const *own = peer.receives.front(tag), *const *any = receives_from_any_.front(tag);
    return any && (!own || (*any)->order < (*own)->order) ? receives_from_any_.pop(tag)
                                                          : peer.receives.pop(tag);
}

void PointToPoint::finish(MessageRequest& request) {
    request.status = Status::success;
    if (request.start.source) *request.start.source = request.start.peer;
    any_ended_ = true;
}

std::vector<int> PointToPoint::tags_not_received(int rank) const {
    std::vector<int> tags;
    for (const Peer* one : known_peers_)
        if (rank == any_rank || rank == one->rank)
            std::ranges::copy(one->unexpected.tags(), std::back_inserter(tags));
    std::ranges::sort(tags);
    tags.erase(std::ranges::unique(tags).begin(), tags.end());
    return tags;
}

bool PointToPoint::is_quiet() const {
    return is_idle() && std::ranges::all_of(known_peers_, [](const Peer* one) {
               return !one->link || one->link->is_quiet();
           });
}

bool PointToPoint::let_go() {
    bool is_offered = false;
    for (MessageRequest* request : open_) {
        if (!request->direct) continue;
        is_offered |= request->start.direction == Direction::send;
        if (request->is_pulling && request->direct->settle()) end_pull(*request);
    }
    return is_offered;
}

void PointToPoint::end_all(Status status) {
    for (MessageRequest* request : open_)
        if (request->status == Status::in_progress) request->status = status;
    open_.clear();
    with_work_.clear();
    unsent_controls_ = 0;
    any_ended_ = false;
    receives_from_any_.clear();
    for (Peer* one : known_peers_) {
        one->controls.clear();
        one->unannounced_sends.clear();
        one->receives.clear();
        one->unexpected.clear();
        one->offered_sends.clear();
        one->arriving_receives.clear();
    }
}

// ---- Packets ------------------------------------------------------------------------------------

PointToPoint::Peer& PointToPoint::peer_at(int rank) {
    std::unique_ptr<Peer>& known = peers_[static_cast<std::size_t>(rank)];
    if (known) return *known;
    auto made = std::make_unique<Peer>();
    made->rank = rank;
    made->link = link_to(rank);
    known_peers_.push_back(made.get());
    known = std::move(made);
    return *known;
}

std::unique_ptr<PacketLink> PointToPoint::link_to(int rank) {
    PacketInbox& inbox = *this;
    if (rank == rank_) return nullptr;
    if (local_peers_ && std::ranges::binary_search(local_peers_->ranks(), rank))
        return std::make_unique<MemoryLink>(*local_peers_, rank, inbox);
    return std::make_unique<FabricLink>(*fabric_, rank, inbox);
}

bool PointToPoint::advance() {
    if (is_idle()) return false;
    bool moved = false;
    for (Peer* one : known_peers_) {
        moved |= send_queued(*one);
        if (one->link) moved |= one->link->poll(one->awaits_packet(receives_from_any_.size() > 0));
    }
    std::uint64_t budget = copied_at_once;
    for (std::size_t i = 0; i < with_work_.size() && budget > 0; ++i)
        moved |= do_work(*with_work_[i], budget);
    std::erase_if(with_work_, [](const MessageRequest* one) { return one->work == Work::none; });
    if (unsent_controls_ > 0)
        for (Peer* one : known_peers_) moved |= send_queued(*one);
    return moved;
}

bool PointToPoint::send_queued(Peer& peer) {
    bool moved = false;
    for (; !peer.controls.empty(); peer.controls.pop_front(), --unsent_controls_, moved = true) {
        const Control& next = peer.controls.front();
        if (send_packet(peer, next.header, nullptr, 0, nullptr) == Sent::no_room) break;
        if (next.request) finish(*next.request);
    }
    for (; !peer.unannounced_sends.empty(); peer.unannounced_sends.pop_front(), moved = true) {
        // A send whose data are still on a device holds back later ones: messages stay in order.
        if (!has_come(*peer.unannounced_sends.front())) break;
        if (announce(peer, *peer.unannounced_sends.front()) == Sent::no_room) break;
    }
    return moved;
}

Sent PointToPoint::send_packet(Peer& peer, const PacketHeader& header, const std::byte* payload,
                               std::size_t bytes, MessageRequest* request) {
    if (peer.link) return peer.link->send(header, payload, bytes, request);
    take_packet(peer, header, payload);
    return Sent::done;
}

Sent PointToPoint::announce(Peer& peer, MessageRequest& send) {
    const MessageStart& start = send.start;
    PacketHeader header{.element = static_cast<std::uint8_t>(start.element),
                        .tag = start.tag,
                        .bytes = start.bytes,
                        .sequence = peer.next_sequence};
    if (start.bytes <= longest_whole) {
        const Sent sent = send_packet(peer, header, start.data, start.bytes, &send);
        if (sent == Sent::done) finish(send);
        return sent;
    }
    send.sequence = header.sequence;
    peer.offered_sends.emplace(send.sequence, &send);  // before the peer can answer
    const Sent sent = offer(peer, send, header);
    if (sent == Sent::no_room)
        peer.offered_sends.erase(send.sequence);
    else
        ++peer.next_sequence;
    return sent;
}

Sent PointToPoint::offer(Peer& peer, MessageRequest& send, PacketHeader header) {
    if (!send.direct) {
        header.kind = PacketKind::offer;
        header.place = place_of(peer, send);
        return send_packet(peer, header, nullptr, 0, nullptr);
    }
    header.kind = PacketKind::device_offer;
    std::byte payload[sizeof(device::Exported)];
    std::memcpy(payload, send.direct->exported(), sizeof payload);
    return send_packet(peer, header, payload, sizeof payload, nullptr);
}

void PointToPoint::queue_control(Peer& peer, const PacketHeader& header, MessageRequest* request) {
    peer.controls.push_back({header, request});
    ++unsent_controls_;
}

void PointToPoint::take(int rank, const PacketHeader& header, const std::byte* payload) {
    take_packet(peer_at(rank), header, payload);
}

void PointToPoint::take_packet(Peer& peer, const PacketHeader& header, const std::byte* payload) {
    switch (header.kind) {
        case PacketKind::whole:
        case PacketKind::offer:
        case PacketKind::device_offer: {
            if (const auto receive = pop_receive(peer, header.tag))
                return match(peer, **receive, header, payload);
            const std::uint64_t bytes = payload_bytes(header);
            Unexpected packet{header, std::make_unique_for_overwrite<std::byte[]>(bytes), came_unexpected_++};
            copy_bytes(packet.payload.get(), payload, bytes);
            return peer.unexpected.push(header.tag, std::move(packet));
        }
        case PacketKind::piece:
            return take_piece(peer, find(peer.arriving_receives, header.sequence), payload);
        case PacketKind::given:
            finish(find(peer.arriving_receives, header.sequence));
            peer.arriving_receives.erase(header.sequence);
            return;
        case PacketKind::accept: {
            MessageRequest& send = find(peer.offered_sends, header.sequence);
            peer.offered_sends.erase(header.sequence);
            return take_accept(peer, send, header.place);
        }
        case PacketKind::taken:
            finish(find(peer.offered_sends, header.sequence));
            peer.offered_sends.erase(header.sequence);
            return;
        case PacketKind::credit:
            break;
    }
    throw Error(Status::internal, "a packet that nobody here understands");
}

MessageRequest& PointToPoint::find(std::unordered_map<std::uint64_t, MessageRequest*>& among,
                                   std::uint64_t sequence) {
    const auto found = among.find(sequence);
    if (found == among.end()) throw Error(Status::internal, "a packet of a message that is not known");
    return *found->second;
}

// ---- Messages -----------------------------------------------------------------------------------

void PointToPoint::match(Peer& peer, MessageRequest& receive, const PacketHeader& header,
                         const std::byte* payload) {
    const MessageStart& start = receive.start;
    receive.is_matched = true;
    receive.start.peer = peer.rank;
    if (header.bytes != start.bytes || header.element != start.element) {
        if (!mismatch_) mismatch_ = SizeMismatch{&receive, header.bytes, header.element};
        return;
    }
    if (header.kind == PacketKind::whole) {
        copy_bytes(start.data, payload, start.bytes);
        return finish(receive);
    }
    receive.sequence = header.sequence;
    if (receive.direct && header.kind == PacketKind::device_offer) {
        device::Exported exported;
        std::memcpy(&exported, payload, sizeof exported);
        if (receive.direct->open(exported, receive.start.bytes)) return give_work(receive, Work::pull);
    }
    if (receive.direct) stage(receive);
    receive.peer_buffer = address(peer, header.place, start.bytes);
    give_work(receive, receive.peer_buffer ? Work::copy_from_sender : Work::accept);
}

void PointToPoint::take_accept(Peer& peer, MessageRequest& send, std::uint64_t place) {
    send.is_matched = true;
    send.peer_buffer = address(peer, place, send.start.bytes);
    if (!send.direct) return give_work(send, send.peer_buffer ? Work::copy_to_receiver : Work::send_body);
    stage(send);  // the receiver's buffer is on the host, or its device cannot reach this buffer
    give_work(send, Work::await_staging);
}

void PointToPoint::take_piece(Peer& peer, MessageRequest& receive, const std::byte* payload) {
    const std::uint64_t bytes =
        std::min<std::uint64_t>(longest_piece, receive.start.bytes - receive.bytes_moved);
    copy_bytes(receive.start.data + receive.bytes_moved, payload, bytes);
    receive.bytes_moved += bytes;
    if (receive.bytes_moved < receive.start.bytes) return;
    peer.arriving_receives.erase(receive.sequence);
    finish(receive);
}

// Converts a place to an address. With itself, a rank uses addresses as places, as it reaches all of its own
// memory.
std::byte* PointToPoint::address(Peer& peer, std::uint64_t place, std::size_t bytes) const {
    if (place == 0) return nullptr;
    return peer.link ? peer.link->at(place, bytes) : reinterpret_cast<std::byte*>(place);
}

std::uint64_t PointToPoint::place_of(Peer& peer, const MessageRequest& request) const {
    const MessageStart& start = request.start;
    return peer.link ? peer.link->place_of(start.data, start.bytes)
                     : reinterpret_cast<std::uint64_t>(start.data);
}

void PointToPoint::give_work(MessageRequest& request, Work work) {
    with_work_.push_back(&request);
    request.work = work;
}

// Returns true if anything moved. Sets the request's work to none when nothing is left to do for it here.
bool PointToPoint::do_work(MessageRequest& request, std::uint64_t& budget) {
    Peer& peer = peer_at(request.start.peer);
    switch (request.work) {
        case Work::copy_from_sender:
        case Work::copy_to_receiver:
            return copy_part(peer, request, budget);
        case Work::send_body:
            return send_body(peer, request, budget);
        case Work::accept:
            return accept(peer, request);
        case Work::pull:
            return pull(peer, request);
        case Work::await_staging:
            return await_staging(request);
        case Work::none:
            break;
    }
    return false;
}

bool PointToPoint::copy_part(Peer& peer, MessageRequest& request, std::uint64_t& budget) {
    const bool fetches = request.work == Work::copy_from_sender;
    const std::uint64_t bytes = std::min(budget, request.start.bytes - request.bytes_moved);
    std::byte* const own = request.start.data + request.bytes_moved;
    std::byte* const theirs = request.peer_buffer + request.bytes_moved;
    if (own != theirs) copy_bytes(fetches ? own : theirs, fetches ? theirs : own, bytes);
    request.bytes_moved += bytes;
    budget -= bytes;
    if (request.bytes_moved < request.start.bytes) return true;
    request.work = Work::none;
    // The request ends only when the other rank has been told: once it has ended, this rank may make no calls
    // for a while.
    queue_control(peer,
                  {.kind = fetches ? PacketKind::taken : PacketKind::given, .sequence = request.sequence},
                  &request);
    return true;
}

bool PointToPoint::send_body(Peer& peer, MessageRequest& send, std::uint64_t& budget) {
    if (!peer.link->carries_pieces()) {
        if (!fabric_->send(peer.rank, FabricLink::tag_of_body(send.sequence), 0, {&send.segment, 1},
                           send.message))
            return false;
        send.work = Work::none;
        return true;
    }
    bool moved = false;
    const PacketHeader header{.kind = PacketKind::piece, .sequence = send.sequence};
    while (budget > 0) {
        const std::uint64_t bytes =
            std::min<std::uint64_t>(longest_piece, send.start.bytes - send.bytes_moved);
        if (peer.link->send(header, send.start.data + send.bytes_moved, bytes, nullptr) == Sent::no_room)
            break;
        send.bytes_moved += bytes;
        budget -= std::min(budget, bytes);
        moved = true;
        if (send.bytes_moved < send.start.bytes) continue;
        send.work = Work::none;
        finish(send);
        break;
    }
    return moved;
}

bool PointToPoint::accept(Peer& peer, MessageRequest& receive) {
    PacketHeader header{.kind = PacketKind::accept, .sequence = receive.sequence};
    if (peer.link->carries_pieces()) {
        header.place = place_of(peer, receive);
        peer.arriving_receives.emplace(receive.sequence, &receive);
    } else {
        if (peer.posted_bodies == most_posted_bodies ||
            !fabric_->receive(peer.rank, FabricLink::tag_of_body(receive.sequence), {&receive.segment, 1},
                              receive.message))
            return false;
        ++peer.posted_bodies;
    }
    receive.work = Work::none;
    queue_control(peer, header);
    return true;
}

bool PointToPoint::pull(Peer& peer, MessageRequest& receive) {
    device::DirectBuffer& buffer = *receive.direct;
    if (!receive.is_pulling) {
        if (!buffer.may_be_used() || !peer.link->begin_pull()) return false;
        receive.is_pulling = true;
        buffer.copy();
        return true;
    }
    if (!buffer.has_copied()) return false;
    end_pull(receive);
    receive.work = Work::none;
    queue_control(peer, {.kind = PacketKind::taken, .sequence = receive.sequence}, &receive);
    return true;
}

void PointToPoint::end_pull(MessageRequest& receive) {
    receive.is_pulling = false;
    peer_at(receive.start.peer).link->end_pull();
}

bool PointToPoint::await_staging(MessageRequest& send) {
    if (!has_come(send)) return false;
    send.work = send.peer_buffer ? Work::copy_to_receiver : Work::send_body;
    return true;
}

// ---- The fabric's answers -----------------------------------------------------------------------

int PointToPoint::peer_of(const transport::Message& message) {
    if (message.kind != body) return parcel_of(message).link->peer();
    return static_cast<const MessageRequest*>(message.user)->start.peer;
}

bool PointToPoint::is_dispensable(const transport::Message& message) {
    return message.kind == outgoing_packet && parcel_of(message).kind == PacketKind::credit;
}

void PointToPoint::completed(const transport::Completion& completion) {
    transport::Message& message = *completion.message;
    if (message.kind == body) {
        auto& request = *static_cast<MessageRequest*>(message.user);
        if (request.start.direction == Direction::receive) --peer_at(request.start.peer).posted_bodies;
        return finish(request);
    }
    auto& parcel = *static_cast<FabricLink::Parcel*>(message.user);
    if (message.kind == incoming_packet) return parcel.link->received(parcel);
    if (parcel.request) finish(*parcel.request);
    parcel.link->sent(parcel);
}

}  // namespace hocket::engine
