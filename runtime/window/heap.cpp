#include "runtime/window/heap.hpp"

#include <algorithm>

#include "runtime/window/memory.hpp"

namespace hocket::transport {
namespace {

constexpr std::uint64_t granule = 64;              // a cache line: blocks never share one
constexpr std::uint64_t discarded_from = 1 << 20;  // to discard costs a system call, and page faults later

}  // namespace

WindowHeap::WindowHeap(std::uint64_t begin, std::uint64_t end,
                       std::function<void(std::uint64_t, std::uint64_t)> discard)
    : discard_(std::move(discard)), free_(begin, end) {}

std::optional<std::uint64_t> WindowHeap::allocate(std::uint64_t bytes, std::uint64_t alignment) {
    const std::uint64_t unit = bytes < page_bytes ? granule : page_bytes;
    if (bytes > UINT64_MAX - unit) return std::nullopt;
    bytes = std::max(round_up(bytes, unit), unit);
    alignment = std::max(alignment, unit);
    const std::lock_guard lock(mutex_);
    const auto offset = free_.allocate(bytes, alignment);
    if (offset) blocks_.emplace(*offset, bytes);
    return offset;
}

bool WindowHeap::release(std::uint64_t offset) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(offset);
    if (block == blocks_.end()) return false;
    const std::uint64_t bytes = block->second;
    blocks_.erase(block);
    if (quarantined_) return true;
    if (bytes >= discarded_from) discard_(offset, bytes);
    free_.release(offset, bytes);
    return true;
}

void WindowHeap::quarantine() {
    const std::lock_guard lock(mutex_);
    quarantined_ = true;
}

std::uint64_t WindowHeap::free_bytes() const {
    const std::lock_guard lock(mutex_);
    return free_.free_bytes();
}

}  // namespace hocket::transport
