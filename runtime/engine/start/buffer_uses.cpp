#include "runtime/engine/start/buffer_uses.hpp"

#include <algorithm>
#include <exception>

#include "runtime/device/devices.hpp"
#include "runtime/engine/start/start_buffers.hpp"

namespace hocket::engine {
namespace {

// A driver that knows some of the memory may let a device write to it at any time. A part that was registered
// with the driver and has no byte that is asked for is not found.
bool is_known_to_driver(const std::byte* memory, std::uint64_t bytes) {
    constexpr std::uint64_t step = 64 * 1024;
    const device::Driver* const driver = device::known_driver();
    if (!driver) return false;
    for (std::uint64_t at = 0; at < bytes; at += step)
        if (device::is_known(*driver, memory + at)) return true;
    return device::is_known(*driver, memory + bytes - 1);
}

bool contains(const std::byte* memory, std::uint64_t bytes, const std::byte* other,
              std::uint64_t other_bytes) {
    return memory <= other && other + other_bytes <= memory + bytes;
}

}  // namespace

// By pair, a buffer has gaps between its pieces, where the program may write meanwhile. Local peers use no
// buffer of a small start, nor of one whose input is copied, so sharing these gains nothing.
void BufferUses::note(const Start& start) noexcept try {
    const Plan& plan = *start.plan;
    const dsl::RankProgram& program = plan.program();
    if (start.count == 0 || plan.is_by_pair() || program.local_peers.empty() ||
        program.protocol == dsl::Protocol::latency)
        return;
    const Layout layout = layout_of(start);
    if (plan.must_copy_input(start.send, start.recv, layout)) return;
    const std::uint64_t sent = program.shares_input ? bytes_of(start, layout, plan.input()) : 0,
                        received = program.shares_output ? bytes_of(start, layout, plan.output()) : 0;
    // In place, one buffer holds the other.
    if (sent > 0 && !(received > 0 && contains(start.recv, received, start.send, sent)))
        use(start.send, sent);
    if (received > 0 && !(sent > received && contains(start.send, sent, start.recv, received)))
        use(start.recv, received);
} catch (const std::exception&) {  // not enough memory: nothing is counted
}

// Memory that was refused, or lost after it was shared, is tried again after twice as many uses: the reason
// may have passed, and the attempts cost little compared with the uses.
void BufferUses::use(const std::byte* memory, std::uint64_t bytes) {
    if (bytes < least_bytes || window_.lists(memory, bytes)) return;
    if (buffers_.size() >= most_buffers && !buffers_.contains({memory, bytes})) buffers_.clear();
    Uses& uses = buffers_[{memory, bytes}];
    if (++uses.counted < uses.awaited) return;
    uses.counted = 0;
    uses.awaited *= 2;
    if (!is_known_to_driver(memory, bytes)) window_.share_by_use(memory, bytes);
}

}  // namespace hocket::engine
