#include "runtime/transport/streams/stripes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::transport {
namespace {

// Stripes begin at pages of the message.
constexpr std::size_t page = 4096;

std::vector<Segment> cut(std::span<const Segment> segments, std::size_t begin, std::size_t bytes) {
    std::vector<Segment> part;
    for (const Segment& segment : segments) {
        const std::size_t skipped = std::min(begin, segment.bytes);
        const std::size_t taken = std::min(bytes, segment.bytes - skipped);
        if (taken > 0) part.push_back({segment.data + skipped, taken});
        begin -= skipped;
        bytes -= taken;
    }
    if (part.empty()) part.push_back({segments.front().data, 0});
    return part;
}

}  // namespace

Stripes::Whole& Stripes::begin(Message& message, Rails& rails) {
    auto whole = std::make_shared<Whole>();
    whole->result.message = &message;
    whole->result.ok = true;
    whole->left = rails.lanes();
    whole->rails = &rails;
    whole_of_.insert_or_assign(&message, whole);
    return *whole;
}

Stripes::Stripe& Stripes::add_stripe(Whole& whole, std::span<const Segment> segments, std::size_t begin,
                                     std::size_t bytes) {
    Stripe& stripe = *whole.stripes.emplace_back(std::make_unique<Stripe>());
    stripe.segments = cut(segments, begin, bytes);
    whole_of_.insert_or_assign(&stripe.message, whole_of_.at(whole.result.message));
    return stripe;
}

void Stripes::send(Rails& rails, std::uint64_t tag, std::uint32_t checksum, std::span<const Segment> segments,
                   Message& message, std::vector<Completion>& done) {
    const std::size_t count = rails.lanes(), all = bytes_in(segments);
    const std::size_t each = (all / count + page - 1) / page * page;
    Whole& whole = begin(message, rails);
    // The first stripe has a list of its own, too: the caller's has all segments.
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t from = std::min(all, i * each),
                          to = i + 1 == count ? all : std::min(all, from + each);
        Stripe& stripe = add_stripe(whole, segments, from, to - from);
        rails.send(tag, checksum, stripe.segments, stripe.message, done,
                   {static_cast<std::uint16_t>(i == 0 ? count : 1), static_cast<std::uint16_t>(i)});
    }
}

void Stripes::receive_rest(Rails& rails) {
    for (const Stream::Striped& met : rails.take_striped()) {
        if (met.stripes != rails.lanes()) {
            rails.give_up(
                fmt::format("a message in {} parts came over {} connections", met.stripes, rails.lanes()));
            continue;
        }
        Whole& whole = begin(*met.message, rails);
        const std::size_t room = bytes_in(met.segments);
        for (std::size_t i = 1; i < rails.lanes(); ++i) {
            const std::size_t from = std::min(room, i * met.first_bytes);
            const bool is_last = i + 1 == rails.lanes();
            Stripe& stripe = add_stripe(whole, met.segments, from,
                                        is_last ? room - from : std::min(room - from, met.first_bytes));
            rails.receive(met.tag, stripe.segments, stripe.message, static_cast<std::uint16_t>(i));
        }
    }
}

// The other lanes of a message that has failed would wait for bytes that do not come.
void Stripes::add(const Completion& part, Whole& whole) {
    Completion& result = whole.result;
    if (result.ok && !part.ok) {
        result.error = part.error;
        if (!part.truncated) whole.rails->give_up(part.error);
    }
    result.ok &= part.ok;
    result.truncated |= part.truncated;
    result.bytes += part.bytes;
    if (part.message == result.message) result.checksum = part.checksum;
    --whole.left;
}

void Stripes::settle(std::vector<Completion>& done, std::size_t from) {
    if (whole_of_.empty()) return;
    std::size_t kept = from;
    for (std::size_t i = from; i < done.size(); ++i) {
        const auto found = whole_of_.find(done[i].message);
        if (found == whole_of_.end()) {
            if (kept != i) done[kept] = std::move(done[i]);
            ++kept;
            continue;
        }
        const std::shared_ptr<Whole> whole = found->second;
        add(done[i], *whole);
        if (whole->left > 0) continue;
        for (const auto& stripe : whole->stripes) whole_of_.erase(&stripe->message);
        whole_of_.erase(whole->result.message);
        done[kept++] = std::move(whole->result);
    }
    done.resize(kept);
}

}  // namespace hocket::transport
