#include "runtime/transport/libfabric/remote_writes.hpp"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::transport {
namespace {

struct Offer {
    std::uint32_t checksum;
    std::uint32_t id;  // of the sender's transfer: the answer's tag
    std::uint64_t bytes;
};
static_assert(offsetof(Offer, checksum) == 0);

struct Answer {
    std::uint32_t id;     // of the receiver's transfer: immediate data, or the signal's tag
    std::uint32_t count;  // of places that the message fills; 0: it is too long
    std::array<RemotePlace, MessageMemory::most_entries> places;
};

// The memory of a transfer's own messages.
struct OwnMessages {
    Offer offer;
    Answer answer;
    std::byte signal;
};
static_assert(sizeof(OwnMessages) <= Registrations::slot_bytes);

template <class T>
std::span<std::byte> bytes_of(T& object) {
    return {reinterpret_cast<std::byte*>(&object), sizeof object};
}

std::size_t size_of(const Answer& answer) {
    return offsetof(Answer, places) + answer.count * sizeof(RemotePlace);
}

// An offer lies at the beginning of the memory of the receive that took it.
std::optional<Offer> read_offer(const MessageMemory::Places& places, std::size_t bytes) {
    Offer offer;
    std::size_t taken = 0;
    for (std::size_t i = 0; i < places.count && taken < sizeof offer; ++i) {
        const std::size_t share = std::min(places.entries[i].iov_len, sizeof offer - taken);
        std::memcpy(reinterpret_cast<std::byte*>(&offer) + taken, places.entries[i].iov_base, share);
        taken += share;
    }
    if (bytes != sizeof offer || taken != sizeof offer) return std::nullopt;
    return offer;
}

std::size_t bytes_in(const MessageMemory::Places& places) {
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < places.count; ++i) bytes += places.entries[i].iov_len;
    return bytes;
}

}  // namespace

// Something that the provider does for a transfer: one completion.
struct RemoteWrites::Step {
    alignas(16) std::byte provider_context[sizeof(fi_context2)];
    Transfer* transfer = nullptr;
    bool is_posted = false, has_ended = false;
};

// One side of a message.
struct RemoteWrites::Transfer {
    std::uint32_t id = 0;
    bool is_sent = false;
    bool is_refused = false;     // by its receiver: it is longer than its receive
    bool is_waiting = false;     // in refused_
    Message* message = nullptr;  // null once its completion was passed on
    fi_addr_t peer = FI_ADDR_UNSPEC;
    Registrations::Slot slot;           // without memory until there was room
    MessageMemory::Places places;       // of the message
    std::size_t bytes = 0;              // of the message
    std::uint32_t checksum = 0;         // received: the sender's
    std::uint32_t peer_id = 0;          // received: of the sender's transfer
    std::uint32_t count = 0;            // of writes, once it is known
    std::uint32_t next = 0, ended = 0;  // sent: writes; `ended` also counts immediate data that has come
    std::size_t offset = 0;             // sent: in the message, of the next write
    int in_flight = 0;
    std::string error;
    Step offer, answer, signal;
    std::array<Step, MessageMemory::most_entries> writes;

    OwnMessages& own() const { return *reinterpret_cast<OwnMessages*>(slot.memory); }

    // Returns true if nothing is to come any more, beside the ends of steps in flight. The sender of a
    // message that is refused has sent it: its receiver reports that.
    bool is_settled(RmaWay way) const {
        if (is_refused) return true;
        if (way == RmaWay::with_signal) return signal.has_ended;
        return count > 0 && ended == count;
    }

    // Returns true if the message has failed and the provider no longer works on its memory. An answer that
    // never comes does not keep it.
    bool has_failed() const {
        if (error.empty()) return false;
        const bool awaits_answer = is_sent && answer.is_posted && !answer.has_ended;
        return !is_sent || in_flight == (awaits_answer ? 1 : 0);
    }
};

RemoteWrites::RemoteWrites(const fi_info& info, RmaWay way, const EndpointObjects& objects,
                           MessageMemory& memory)
    : provider_(info.fabric_attr->prov_name),
      way_(way),
      flags_of_sends_(FI_COMPLETION | (carries_data(info) ? FI_REMOTE_CQ_DATA : 0)),
      endpoint_(objects.endpoint.get()),
      memory_(memory),
      most_arrivals_(std::max(info.rx_attr->size, MessageMemory::most_entries)) {}

RemoteWrites::~RemoteWrites() = default;

RemoteWrites::Transfer& RemoteWrites::begin(Message& message, fi_addr_t peer, Registrations::Slot slot) {
    auto made = std::make_unique<Transfer>();
    while (transfers_.contains(next_id_)) ++next_id_;
    made->id = next_id_++;
    made->message = &message;
    made->peer = peer;
    made->slot = slot;
    return *(transfers_[made->id] = std::move(made));
}

bool RemoteWrites::offer(fi_addr_t to, std::uint64_t tag, std::uint32_t checksum,
                         std::span<const Segment> segments, Message& message) {
    const auto places = memory_.find(segments, MessageMemory::Direction::send, message);
    if (!places) return false;
    const Registrations::Slot slot = memory_.registrations().take_slot();
    if (!slot.memory) {
        memory_.refused(message);
        return false;
    }
    Transfer& transfer = begin(message, to, slot);
    transfer.is_sent = true;
    transfer.places = *places;
    transfer.bytes = bytes_in(*places);
    transfer.own().offer = {checksum, transfer.id, transfer.bytes};
    if (!send(transfer, transfer.offer, tag | offer_bit, checksum, bytes_of(transfer.own().offer))) {
        memory_.registrations().give_back(slot);
        transfers_.erase(transfer.id);
        memory_.refused(message);
        return false;
    }
    advance(transfer);
    return true;
}

std::optional<Completion> RemoteWrites::accept(Message& message, fi_addr_t from,
                                               const fi_cq_tagged_entry& entry) {
    const auto places = memory_.find(message.segments, MessageMemory::Direction::receive, message);
    const std::size_t room = bytes_in(*places);
    const auto offer = read_offer(
        *memory_.find_tagged(message.segments, MessageMemory::Direction::receive, message), entry.len);
    if (!offer || offer->bytes > room) {
        Completion completion{.message = &message,
                              .error = "the message is longer than its receive has room for",
                              .bytes = offer ? offer->bytes : entry.len,
                              .checksum = offer ? offer->checksum : static_cast<std::uint32_t>(entry.data),
                              .truncated = true};
        if (!offer) memory_.take_header(completion);
        memory_.end(completion);
        if (offer) {
            Transfer& transfer = begin(message, from, {});
            transfer.message = nullptr;
            transfer.is_refused = true;
            transfer.peer_id = offer->id;
            advance(transfer);
        }
        return completion;
    }
    Transfer& transfer = begin(message, from, {});
    transfer.places = *places;
    transfer.bytes = offer->bytes;
    transfer.checksum = offer->checksum;
    transfer.peer_id = offer->id;
    for (std::size_t begin = 0; begin < transfer.bytes; ++transfer.count)
        begin += places->entries[transfer.count].iov_len;
    advance(transfer);
    return std::nullopt;
}

// Posts what can be posted.
void RemoteWrites::advance(Transfer& transfer) {
    const bool has_room = transfer.is_sent ? advance_sent(transfer) : advance_received(transfer);
    if (has_room || transfer.is_waiting) return;
    transfer.is_waiting = true;
    refused_.push_back(transfer.id);
}

void RemoteWrites::retry() {
    if (refused_.empty()) return;
    for (const std::uint32_t id : std::exchange(refused_, {})) {
        const auto found = transfers_.find(id);
        if (found == transfers_.end()) continue;
        found->second->is_waiting = false;
        advance(*found->second);
    }
}

bool RemoteWrites::advance_sent(Transfer& transfer) {
    if (!transfer.error.empty()) return true;
    OwnMessages& own = transfer.own();
    if (!receive(transfer, transfer.answer, answer_bit | transfer.id, bytes_of(own.answer))) return false;
    while (transfer.next < transfer.count)
        if (!write_next(transfer)) return false;
    const bool all_delivered = transfer.count > 0 && transfer.ended == transfer.count;
    if (way_ == RmaWay::with_immediate_data || !all_delivered) return true;
    return send(transfer, transfer.signal, signal_bit | own.answer.id, 0, {&own.signal, 1});
}

bool RemoteWrites::advance_received(Transfer& transfer) {
    if (!transfer.error.empty()) return true;
    if (transfer.answer.is_posted) return true;
    if (!transfer.slot.memory) transfer.slot = memory_.registrations().take_slot();
    if (!transfer.slot.memory) return false;
    OwnMessages& own = transfer.own();
    own.answer.id = transfer.id, own.answer.count = transfer.count;
    if (!transfer.is_refused) {
        if (!has_room_for_arrivals(transfer)) return false;
        if (!memory_.expose(*transfer.message, transfer.places, {own.answer.places.data(), transfer.count}))
            return false;
        if (way_ == RmaWay::with_signal &&
            !receive(transfer, transfer.signal, signal_bit | transfer.id, {&own.signal, 1}))
            return false;
    }
    if (!send(transfer, transfer.answer, answer_bit | transfer.peer_id, 0,
              bytes_of(own.answer).first(size_of(own.answer))))
        return false;
    if (!transfer.is_refused && way_ == RmaWay::with_immediate_data) arrivals_ += transfer.count;
    return true;
}

// Immediate data comes unasked, and must find room in the completion queue.
bool RemoteWrites::has_room_for_arrivals(const Transfer& transfer) const {
    return way_ == RmaWay::with_signal || arrivals_ + transfer.count <= most_arrivals_;
}

bool RemoteWrites::write_next(Transfer& transfer) {
    const Answer& answer = transfer.own().answer;
    const RemotePlace& place = answer.places[transfer.next];
    const std::size_t bytes = std::min<std::size_t>(place.bytes, transfer.bytes - transfer.offset);
    auto from = transfer.places.part(transfer.offset, bytes);
    const fi_rma_iov to{.addr = place.address, .len = bytes, .key = place.key};
    Step& step = transfer.writes[transfer.next];
    const fi_msg_rma what{.msg_iov = from.entries.data(),
                          .desc = from.descriptors.data(),
                          .iov_count = from.count,
                          .addr = transfer.peer,
                          .rma_iov = &to,
                          .rma_iov_count = 1,
                          .context = step.provider_context,
                          .data = answer.id};
    const std::uint64_t told = way_ == RmaWay::with_immediate_data ? FI_REMOTE_CQ_DATA : FI_DELIVERY_COMPLETE;
    if (!posted(transfer, step, "write to", fi_writemsg(endpoint_, &what, FI_COMPLETION | told)))
        return false;
    ++transfer.next;
    transfer.offset += bytes;
    return true;
}

bool RemoteWrites::send(Transfer& transfer, Step& step, std::uint64_t tag, std::uint32_t data,
                        std::span<std::byte> bytes) {
    if (step.is_posted) return true;
    const iovec place{bytes.data(), bytes.size()};
    void* descriptor = transfer.slot.descriptor;
    const fi_msg_tagged what{.msg_iov = &place,
                             .desc = &descriptor,
                             .iov_count = 1,
                             .addr = transfer.peer,
                             .tag = tag,
                             .ignore = 0,
                             .context = step.provider_context,
                             .data = data};
    return posted(transfer, step, "send to", fi_tsendmsg(endpoint_, &what, flags_of_sends_));
}

bool RemoteWrites::receive(Transfer& transfer, Step& step, std::uint64_t tag, std::span<std::byte> into) {
    if (step.is_posted) return true;
    const iovec place{into.data(), into.size()};
    void* descriptor = transfer.slot.descriptor;
    const fi_msg_tagged what{.msg_iov = &place,
                             .desc = &descriptor,
                             .iov_count = 1,
                             .addr = transfer.peer,
                             .tag = tag,
                             .ignore = 0,
                             .context = step.provider_context,
                             .data = 0};
    return posted(transfer, step, "receive from", fi_trecvmsg(endpoint_, &what, FI_COMPLETION));
}

bool RemoteWrites::posted(Transfer& transfer, Step& step, const char* what, ssize_t code) {
    if (code == -FI_EAGAIN || code == -FI_ENOMEM) return false;
    if (code != 0)
        throw Error(Status::transport,
                    fmt::format("libfabric's provider '{}' could not {} a rank for a message by RMA: {}; "
                                "HOCKET_RMA=off sends messages instead",
                                provider_, what, fi_strerror(static_cast<int>(-code))));
    step.transfer = &transfer;
    step.is_posted = true;
    steps_[step.provider_context] = &step;
    ++transfer.in_flight;
    return true;
}

std::optional<Completion> RemoteWrites::step_ended(const void* context, const std::string& error) {
    const auto found = steps_.find(context);
    Step& step = *found->second;
    Transfer& transfer = *step.transfer;
    steps_.erase(found);
    step.has_ended = true;
    --transfer.in_flight;
    if (transfer.error.empty()) transfer.error = error;
    if (transfer.is_sent && error.empty()) {
        if (&step >= transfer.writes.data() && &step < transfer.writes.data() + transfer.writes.size())
            ++transfer.ended;
        if (&step == &transfer.answer) {
            transfer.count = transfer.own().answer.count;
            if (transfer.count > transfer.writes.size()) {
                transfer.error =
                    fmt::format("its receiver named {} places, more than the {} that a message may have",
                                transfer.count, transfer.writes.size());
                transfer.count = 0;
            }
            transfer.is_refused = transfer.count == 0;
        }
        advance(transfer);
    }
    return settle(transfer);
}

std::optional<Completion> RemoteWrites::written(std::uint64_t immediate_data) {
    const auto found = transfers_.find(static_cast<std::uint32_t>(immediate_data));
    if (found == transfers_.end() || found->second->is_sent)
        throw Error(Status::transport,
                    fmt::format("libfabric's provider '{}' reports a write that no message "
                                "of this rank has asked for",
                                provider_));
    --arrivals_;
    ++found->second->ended;
    return settle(*found->second);
}

// Passes on the completion of a transfer's message, if that has ended, and forgets a transfer that is over.
std::optional<Completion> RemoteWrites::settle(Transfer& transfer) {
    const bool is_over = transfer.in_flight == 0 && (transfer.is_settled(way_) || !transfer.error.empty());
    std::optional<Completion> completion;
    if (transfer.message && (is_over || transfer.has_failed())) completion = complete(transfer);
    if (is_over) {
        if (transfer.slot.memory) memory_.registrations().give_back(transfer.slot);
        transfers_.erase(transfer.id);
    }
    return completion;
}

std::optional<Completion> RemoteWrites::complete(Transfer& transfer) {
    Completion completion{.message = std::exchange(transfer.message, nullptr),
                          .ok = transfer.error.empty(),
                          .error = transfer.error,
                          .bytes = transfer.is_sent ? 0 : transfer.bytes,
                          .checksum = transfer.checksum};
    memory_.end(completion);
    return completion;
}

}  // namespace hocket::transport
