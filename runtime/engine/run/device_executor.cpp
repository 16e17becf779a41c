#include "runtime/engine/run/device_executor.hpp"

#include "runtime/device/direct_buffer.hpp"
#include "runtime/engine/plan/address.hpp"

namespace hocket::engine {

std::byte* DeviceExecutor::open(const device::Exported& exported) {
    const auto begin = copies_.open(exported);
    return begin ? reinterpret_cast<std::byte*>(*begin) : nullptr;
}

// Returns how many copies from or to a local peer's memory the operation is; nullopt if a local peer refuses.
std::optional<std::size_t> DeviceExecutor::begin_pulls(const dsl::Op& op, LocalPeers& local_peers) const {
    std::size_t begun = 0;
    bool may = true;
    const auto begin = [&](dsl::AreaId area) {
        const auto peer = local_peer_of(program_, program_.memory_of(area));
        if (!may || !peer) return;
        may = local_peers.begin_pull(local_peers.member_of(program_.local_peers[*peer]));
        begun += may ? 1 : 0;
    };
    begin(op.operands[0]);
    begin(op.area);
    for (const dsl::AreaId area : op.also) begin(area);
    if (may) return begun;
    for (; begun > 0; --begun) local_peers.end_pull();
    return std::nullopt;
}

bool DeviceExecutor::post(dsl::OpId id, const std::byte* const* areas, const std::uint64_t* byte_offsets,
                          LocalPeers& local_peers) {
    const dsl::Op& op = program_.ops[id];
    const auto pulls = begin_pulls(op, local_peers);
    if (!pulls) return false;
    const std::uint64_t begin = byte_offsets[op.begin], bytes = byte_offsets[op.end] - begin;
    posted_.push_back({id, *pulls, fences_ + 1, bytes});
    posted_bytes_ += bytes;
    const auto address_in = [&](dsl::AreaId area) { return device::address_of(areas[area]) + begin; };
    const auto copy_to = [&](dsl::AreaId area) {
        const device::DevicePointer from = address_in(op.operands[0]), to = address_in(area);
        if (bytes > 0 && from != to) copies_.post(to, from, bytes);
    };
    copy_to(op.area);
    for (const dsl::AreaId area : op.also) copy_to(area);
    return true;
}

void DeviceExecutor::flush() {
    if (posted_.empty() || posted_.back().fence == fences_) return;
    copies_.fence();
    ++fences_;
}

std::optional<dsl::OpId> DeviceExecutor::next_ended(LocalPeers& local_peers) {
    if (posted_.empty() || posted_.front().fence > copies_.reached()) return std::nullopt;
    const Posted ended = posted_.front();
    posted_.pop_front();
    posted_bytes_ -= ended.bytes;
    for (std::size_t i = 0; i < ended.pulls; ++i) local_peers.end_pull();
    return ended.op;
}

bool DeviceExecutor::settle(LocalPeers& local_peers) noexcept {
    if (!copies_.settle()) return false;
    for (const Posted& posted : posted_)
        for (std::size_t i = 0; i < posted.pulls; ++i) local_peers.end_pull();
    posted_.clear();
    posted_bytes_ = 0;
    return true;
}

}  // namespace hocket::engine
