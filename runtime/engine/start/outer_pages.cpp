#include "runtime/engine/start/outer_pages.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {
namespace {

std::uint64_t end_of(const std::vector<Stretch>& stretches) {
    std::uint64_t end = 0;
    for (const Stretch& stretch : stretches) end = std::max(end, stretch.end);
    return end;
}

// Calls call(begin, end) for the private parts of the stretches.
template <typename Call>
void for_private(const transport::StagingBuffer& staging_buffer, const std::vector<Stretch>& stretches,
                 Call call) {
    for (const auto& [begin, end] : stretches) {
        if (begin < staging_buffer.shared_begin) call(begin, std::min(end, staging_buffer.shared_begin));
        if (const std::uint64_t rest = std::max(begin, staging_buffer.shared_end); rest < end)
            call(rest, end);
    }
}

bool overlap(const std::byte* a, std::uint64_t a_bytes, const std::byte* b, std::uint64_t b_bytes) {
    return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

OuterPages::OuterPages(Start& start, const transport::Window& window) {
    if (start.count == 0 && !start.plan->is_by_pair()) return;
    const std::vector<Stretch> sent = stretches_sent(start), received = stretches_received(start);
    const std::uint64_t sent_bytes = end_of(sent), received_bytes = end_of(received);
    const auto find = [&](const std::byte* buffer, std::uint64_t bytes) {
        return bytes > 0 ? window.staging_buffer_for(buffer, bytes) : std::nullopt;
    };
    const auto input = find(start.send, sent_bytes), output = find(start.recv, received_bytes);
    // A start in place stays in place: both buffers are in one range, or none is replaced.
    if (input.has_value() != output.has_value() &&
        overlap(start.send, sent_bytes, start.recv, received_bytes))
        return;
    if (input) {
        for_private(*input, sent, [&](std::uint64_t begin, std::uint64_t end) {
            std::memcpy(input->memory + begin, start.send + begin, end - begin);
        });
        start.send = input->memory;
    }
    if (output) {
        // A schedule may leave part of the buffer unchanged.
        for_private(*output, received, [&](std::uint64_t begin, std::uint64_t end) {
            std::memcpy(output->memory + begin, start.recv + begin, end - begin);
            results_.push_back({start.recv + begin, output->memory + begin, end - begin});
        });
        start.recv = output->memory;
    }
}

void OuterPages::finish() const {
    for (const Part& part : results_) std::memcpy(part.there, part.here, part.bytes);
}

}  // namespace hocket::engine
