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

std::optional<std::uint64_t> WindowHeap::allocate(std::uint64_t bytes, std::uint64_t alignment, Owner owner,
                                                  Known known) {
    const std::uint64_t unit = bytes < page_bytes ? granule : page_bytes;
    if (bytes > UINT64_MAX - unit) return std::nullopt;
    bytes = std::max(round_up(bytes, unit), unit);
    alignment = std::max(alignment, unit);
    const std::lock_guard lock(mutex_);
    const auto offset = free_.allocate(bytes, alignment);
    if (offset) blocks_.emplace(*offset, Block{bytes, owner, known});
    return offset;
}

bool WindowHeap::release(std::uint64_t offset, Owner owner) {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(offset);
    if (block == blocks_.end() || block->second.owner != owner) return false;
    release(block);
    return true;
}

void WindowHeap::release_all(Owner owner) {
    const std::lock_guard lock(mutex_);
    for (auto block = blocks_.begin(); block != blocks_.end();)
        block = block->second.owner == owner ? release(block) : std::next(block);
}

// Returns the next one. mutex_ is held.
WindowHeap::Blocks::iterator WindowHeap::release(Blocks::iterator block) {
    const auto [offset, freed] = *block;
    const bool may_be_written =
        freed.known == Known::to_any_peers ? !quarantined_.empty() : quarantined_.contains(freed.owner);
    if (!may_be_written) {
        if (freed.bytes >= discarded_from) discard_(offset, freed.bytes);
        free_.release(offset, freed.bytes);
    }
    return blocks_.erase(block);
}

void WindowHeap::quarantine(Owner owner) {
    const std::lock_guard lock(mutex_);
    quarantined_.insert(owner);
}

std::uint64_t WindowHeap::free_bytes() const {
    const std::lock_guard lock(mutex_);
    return free_.free_bytes();
}

}  // namespace hocket::transport
