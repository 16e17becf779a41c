#include "runtime/transport/window_heap.hpp"

#include <algorithm>

#include "runtime/transport/window_memory.hpp"

namespace hocket::transport {
namespace {

constexpr std::uint64_t granule = 64;              // a cache line: blocks never share one
constexpr std::uint64_t discarded_from = 1 << 20;  // discarding costs a system call, and faults later on

}  // namespace

WindowHeap::WindowHeap(std::uint64_t begin, std::uint64_t end,
                       std::function<void(std::uint64_t, std::uint64_t)> discard)
    : discard_(std::move(discard)) {
    if (begin < end) insert_free(begin, end - begin);
}

std::optional<std::uint64_t> WindowHeap::allocate(std::uint64_t bytes, std::uint64_t alignment) {
    const std::uint64_t unit = bytes < page_bytes ? granule : page_bytes;
    if (bytes > UINT64_MAX - unit) return std::nullopt;
    bytes = std::max(round_up(bytes, unit), unit);
    alignment = std::max(alignment, unit);
    const std::lock_guard lock(mutex_);
    for (auto fit = free_by_size_.lower_bound({bytes, 0}); fit != free_by_size_.end(); ++fit) {
        const auto [size, begin] = *fit;
        const std::uint64_t offset = round_up(begin, alignment), end = begin + size;
        if (offset > end || end - offset < bytes) continue;
        blocks_.emplace(offset, bytes);
        erase_free(free_.find(begin));
        if (begin < offset) insert_free(begin, offset - begin);
        if (offset + bytes < end) insert_free(offset + bytes, end - offset - bytes);
        return offset;
    }
    return std::nullopt;
}

bool WindowHeap::release(std::uint64_t offset) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(offset);
    if (block == blocks_.end()) return false;
    const std::uint64_t bytes = block->second;
    blocks_.erase(block);
    if (quarantined_) return true;
    if (bytes >= discarded_from) discard_(offset, bytes);
    insert_free(offset, bytes);
    return true;
}

void WindowHeap::quarantine() {
    const std::lock_guard lock(mutex_);
    quarantined_ = true;
}

std::uint64_t WindowHeap::free_bytes() const {
    const std::lock_guard lock(mutex_);
    return free_bytes_;
}

void WindowHeap::insert_free(std::uint64_t offset, std::uint64_t bytes) {
    const auto after = free_.lower_bound(offset);
    if (after != free_.begin()) {
        const auto before = std::prev(after);
        if (before->first + before->second == offset) {
            offset = before->first;
            bytes += before->second;
            erase_free(before);
        }
    }
    if (after != free_.end() && after->first == offset + bytes) {
        bytes += after->second;
        erase_free(after);
    }
    free_.emplace(offset, bytes);
    free_by_size_.emplace(bytes, offset);
    free_bytes_ += bytes;
}

void WindowHeap::erase_free(std::map<std::uint64_t, std::uint64_t>::iterator range) {
    free_bytes_ -= range->second;
    free_by_size_.erase({range->second, range->first});
    free_.erase(range);
}

}  // namespace hocket::transport
