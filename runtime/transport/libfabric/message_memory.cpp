#include "runtime/transport/libfabric/message_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/transport/libfabric/provider.hpp"

namespace hocket::transport {

// Stands for a message's memory with the provider, until the message has ended.
struct MessageMemory::Held {
    struct Registered {
        fid_mr* registration;
        const std::byte* begin;
    };
    std::unique_ptr<std::byte[]> memory;    // header and message, where it has more parts than go at once
    Registrations::Slot slot;               // the same for a short message, or a header, in registered memory
    std::uint32_t unregistered_header = 0;  // where the caller's segments need not be registered
    std::byte* header = nullptr;            // right before the copy, if there is one; null: no header
    std::byte* copy = nullptr;              // of the message
    bool is_for_all_attempts = false;       // the copy, if the provider refuses the message
    std::vector<Registered> registrations;  // of `memory`, or of each segment
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
      header_bytes_(carries_data(info) ? 0 : sizeof(Completion::checksum)),
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
    if (!prepare(segments, direction, 0, message)) return std::nullopt;
    const std::size_t bytes = bytes_in(segments);
    Places places;
    const auto* held = static_cast<const Held*>(message.held.get());
    if (held && held->copy) {
        places.entries[0] = {held->copy, bytes};
        places.descriptors[0] = held->slot.descriptor;
        places.count = 1;
    } else {
        places.count = SegmentCursor(segments).describe(places.entries, bytes);
    }
    if (held)
        std::transform(held->registrations.begin(), held->registrations.end(), places.descriptors.begin(),
                       [](const Held::Registered& each) { return fi_mr_desc(each.registration); });
    return places;
}

std::optional<MessageMemory::Places> MessageMemory::find_tagged(std::span<const Segment> segments,
                                                                Direction direction, Message& message,
                                                                std::uint32_t checksum) {
    if (header_bytes_ == 0) return find(segments, direction, message);
    if (!prepare(segments, direction, header_bytes_, message)) return std::nullopt;
    const auto& held = *static_cast<const Held*>(message.held.get());
    if (direction == Direction::send) std::memcpy(held.header, &checksum, sizeof checksum);
    Places places = *find(segments, direction, message);
    if (held.copy) {
        places.entries[0] = {held.header, header_bytes_ + bytes_in(segments)};
        return places;
    }
    std::copy_backward(places.entries.begin(), places.entries.begin() + places.count,
                       places.entries.begin() + places.count + 1);
    std::copy_backward(places.descriptors.begin(), places.descriptors.begin() + places.count,
                       places.descriptors.begin() + places.count + 1);
    places.entries[0] = {held.header, header_bytes_};
    places.descriptors[0] = held.slot.descriptor;
    ++places.count;
    return places;
}

void MessageMemory::take_header(Completion& completion) const {
    if (header_bytes_ == 0) return;
    const auto& held = *static_cast<const Held*>(completion.message->held.get());
    std::memcpy(&completion.checksum, held.header, sizeof completion.checksum);
    completion.bytes -= std::min(completion.bytes, header_bytes_);
}

// Holds for the message what it needs. Returns false if the provider has no room now.
bool MessageMemory::prepare(std::span<const Segment> segments, Direction direction, std::size_t header,
                            Message& message) {
    const std::size_t bytes = bytes_in(segments);
    if (header + bytes > most_bytes_) refuse_size(bytes, most_bytes_ - header);
    const bool holds =
        registrations_.are_needed() || header > 0 || segments.size() > most_segments(direction);
    if (!message.held && holds) message.held = hold(segments, bytes, direction, header);
    return message.held || !holds;
}

// Returns nullptr if the provider has no room now.
std::shared_ptr<MessageMemory::Held> MessageMemory::hold(std::span<const Segment> segments, std::size_t bytes,
                                                         Direction direction, std::size_t header) {
    auto held = std::make_shared<Held>();
    const bool registers = registrations_.are_needed(),
               is_short = registers && bytes <= Registrations::slot_bytes;
    const bool is_copied = !is_short && segments.size() + (header > 0) > most_segments(direction);
    if (is_short || (registers && header > 0 && !is_copied)) {
        held->slot = registrations_.take_slot();
        if (!held->slot.memory) return nullptr;
    }
    held->is_for_all_attempts = is_copied && segments.size() > 1;
    if (is_copied) held->memory = std::make_unique_for_overwrite<std::byte[]>(header + bytes);
    std::byte* const begin = is_copied ? held->memory.get() : held->slot.memory;
    if (is_short || is_copied) held->copy = begin + header;
    if (header > 0) {
        held->header = begin ? begin : reinterpret_cast<std::byte*>(&held->unregistered_header);
        std::memset(held->header, 0, header);  // for a message of which nothing arrives
    }
    if (held->copy && direction == Direction::send) SegmentCursor(segments).read(held->copy, bytes);
    if (!registers || is_short) return held;
    const Segment whole{held->memory.get(), header + bytes};
    if (!register_all(is_copied ? std::span(&whole, 1) : segments, bytes, direction, *held)) return nullptr;
    return held;
}

bool MessageMemory::register_all(std::span<const Segment> segments, std::size_t bytes, Direction direction,
                                 Held& held) {
    const std::uint64_t access = access_of(bytes, direction);
    for (const Segment& segment : segments) {
        fid_mr* registration = registrations_.add(segment.data, segment.bytes, access);
        if (registration == nullptr) {
            let_go(held);
            return false;
        }
        held.registrations.push_back({registration, segment.data});
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
        held.registrations.push_back({registration, static_cast<std::byte*>(memory)});
    }
    for (std::size_t i = 0; i < described.size(); ++i) {
        const auto& [memory, bytes] = places.entries[i];
        const auto& [registration, begin] = held.registrations[i];
        described[i] = registrations_.describe(registration, begin, static_cast<std::byte*>(memory), bytes);
    }
    return true;
}

void MessageMemory::refused(Message& message) {
    auto* held = static_cast<Held*>(message.held.get());
    if (!held || held->is_for_all_attempts) return;
    let_go(*held);
    message.held.reset();
}

void MessageMemory::end(const Completion& completion) {
    Message& message = *completion.message;
    auto* held = static_cast<Held*>(message.held.get());
    if (!held) return;
    if (held->copy && completion.ok && !message.segments.empty())
        SegmentCursor(message.segments)
            .write(held->copy, std::min(completion.bytes, bytes_in(message.segments)));
    let_go(*held);
    message.held.reset();
}

void MessageMemory::let_go(Held& held) {
    for (const auto& [registration, begin] : held.registrations) registrations_.remove(registration);
    if (held.slot.memory) registrations_.give_back(held.slot);
}

void MessageMemory::refuse_size(std::size_t bytes, std::size_t most) const {
    throw Error(
        Status::transport,
        fmt::format(
            "libfabric's provider '{}' takes messages of at most {} bytes, and this one has "
            "{}; send less at a time, use a schedule that divides the buffer further, or another provider",
            provider_, most, bytes));
}

}  // namespace hocket::transport
