#include "runtime/transport/libfabric/message_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/transport/libfabric/provider.hpp"

namespace hocket::transport {

// Stands for a message's memory with the provider, until the message has ended.
struct MessageMemory::Held {
    std::unique_ptr<std::byte[]> memory;  // the whole message, where it has more segments than go at once
    Registrations::Slot slot;             // the same for a short message, in registered memory
    std::vector<fid_mr*> registrations;   // of `memory`, or of each segment

    std::byte* copy() const { return memory ? memory.get() : slot.memory; }
};

MessageMemory::Places MessageMemory::Places::part(std::size_t begin, std::size_t bytes) const {
    Places found;
    for (std::size_t i = 0; i < count && bytes > 0; ++i) {
        const auto [memory, length] = entries[i];
        if (begin >= length) {
            begin -= length;
            continue;
        }
        const std::size_t share = std::min(length - begin, bytes);
        found.descriptors[found.count] = descriptors[i];
        found.entries[found.count++] = {static_cast<std::byte*>(memory) + begin, share};
        bytes -= share;
        begin = 0;
    }
    return found;
}

MessageMemory::MessageMemory(const fi_info& info, RmaWay rma, const EndpointObjects& objects)
    : provider_(info.fabric_attr->prov_name),
      rma_(rma),
      most_sent_segments_(std::min(info.tx_attr->iov_limit, most_entries)),
      most_received_segments_(std::min(info.rx_attr->iov_limit, most_entries)),
      most_bytes_(info.ep_attr->max_msg_size),
      registrations_(info, objects) {
    // Over rxm of 1.17 a receive never ends if its buffer is too short for a long message of several
    // segments: rxm waits for as many reads as there are segments, but issues fewer.
    if (has_rxm(info)) most_sent_segments_ = 1;
}

std::optional<MessageMemory::Places> MessageMemory::find(std::span<const Segment> segments,
                                                         Direction direction, Message& message) {
    const std::size_t bytes = bytes_in(segments);
    if (bytes > most_bytes_) refuse_size(bytes);
    if (!message.held && (registrations_.are_needed() || segments.size() > most_segments(direction))) {
        message.held = hold(segments, bytes, direction);
        if (!message.held) return std::nullopt;
    }
    Places places;
    const auto* held = static_cast<const Held*>(message.held.get());
    if (held && held->copy()) {
        places.entries[0] = {held->copy(), bytes};
        places.count = 1;
    } else {
        places.count = SegmentCursor(segments).describe(places.entries, bytes);
    }
    if (!held) return places;
    places.descriptors[0] = held->slot.descriptor;
    std::transform(held->registrations.begin(), held->registrations.end(), places.descriptors.begin(),
                   fi_mr_desc);
    return places;
}

// Returns nullptr if the provider has no room now.
std::shared_ptr<MessageMemory::Held> MessageMemory::hold(std::span<const Segment> segments, std::size_t bytes,
                                                         Direction direction) {
    auto held = std::make_shared<Held>();
    if (registrations_.are_needed() && bytes <= Registrations::slot_bytes) {
        held->slot = registrations_.take_slot();
        if (!held->slot.memory) return nullptr;
    } else if (segments.size() > most_segments(direction)) {
        held->memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    }
    if (held->copy() && direction == Direction::send) SegmentCursor(segments).read(held->copy(), bytes);
    if (!registrations_.are_needed() || held->slot.memory) return held;
    const Segment whole{held->memory.get(), bytes};
    if (!register_all(held->memory ? std::span(&whole, 1) : segments, direction, *held)) return nullptr;
    return held;
}

bool MessageMemory::register_all(std::span<const Segment> segments, Direction direction, Held& held) {
    const std::uint64_t access = access_of(bytes_in(segments), direction);
    for (const Segment& segment : segments) {
        fid_mr* registration = registrations_.add(segment.data, segment.bytes, access);
        if (registration == nullptr) {
            let_go(held);
            return false;
        }
        held.registrations.push_back(registration);
    }
    return true;
}

std::uint64_t MessageMemory::access_of(std::size_t bytes, Direction direction) const {
    if (direction == Direction::send) return FI_SEND | (is_written(bytes) ? FI_WRITE : 0);
    return FI_RECV | (is_written(bytes) ? FI_REMOTE_WRITE : 0);
}

bool MessageMemory::expose(Message& message, const Places& places, std::span<RemotePlace> described) {
    if (!message.held) message.held = std::make_shared<Held>();
    auto& held = *static_cast<Held*>(message.held.get());
    for (std::size_t i = held.registrations.size(); i < described.size(); ++i) {
        const auto& [memory, bytes] = places.entries[i];
        fid_mr* registration = registrations_.add(memory, bytes, FI_REMOTE_WRITE);
        if (registration == nullptr) return false;
        held.registrations.push_back(registration);
    }
    for (std::size_t i = 0; i < described.size(); ++i) {
        const auto& [memory, bytes] = places.entries[i];
        described[i] = registrations_.describe(held.registrations[i], memory, bytes);
    }
    return true;
}

void MessageMemory::refused(Message& message) {
    auto* held = static_cast<Held*>(message.held.get());
    if (!held || held->memory) return;
    let_go(*held);
    message.held.reset();
}

void MessageMemory::end(const Completion& completion) {
    Message& message = *completion.message;
    auto* held = static_cast<Held*>(message.held.get());
    if (!held) return;
    if (held->copy() && completion.ok && !message.segments.empty())
        SegmentCursor(message.segments)
            .write(held->copy(), std::min(completion.bytes, bytes_in(message.segments)));
    let_go(*held);
    message.held.reset();
}

void MessageMemory::let_go(Held& held) {
    for (fid_mr* registration : held.registrations) registrations_.remove(registration);
    if (held.slot.memory) registrations_.give_back(held.slot);
}

void MessageMemory::refuse_size(std::size_t bytes) const {
    throw Error(
        Status::transport,
        fmt::format(
            "libfabric's provider '{}' takes messages of at most {} bytes, and this one has "
            "{}; send less at a time, use a schedule that divides the buffer further, or another provider",
            provider_, most_bytes_, bytes));
}

}  // namespace hocket::transport
