#include "runtime/transport/window/heap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "runtime/transport/window/memory.hpp"

namespace hocket::transport {
namespace {

constexpr std::uint64_t granule = 64;              // a cache line: blocks never share one
constexpr std::uint64_t discarded_from = 1 << 20;  // a discard costs a system call, and page faults later

}  // namespace

WindowHeap::WindowHeap(const std::vector<Extent>& extents, std::function<void(Extent)> prepare,
                       std::function<void(std::uint64_t, std::uint64_t)> discard)
    : prepare_(std::move(prepare)), discard_(std::move(discard)) {
    for (const Extent extent : extents) parts_.push_back({extent, FreeRanges(extent.begin, extent.end)});
}

std::optional<std::uint64_t> WindowHeap::allocate(std::uint64_t bytes, std::uint64_t alignment, Owner owner,
                                                  Known known) {
    const std::uint64_t unit = bytes < page_bytes ? granule : page_bytes;
    if (bytes > UINT64_MAX - unit) return std::nullopt;
    bytes = std::max(round_up(bytes, unit), unit);
    alignment = std::max(alignment, unit);
    const std::lock_guard lock(mutex_);
    const auto offset = find_room(bytes, alignment);
    if (offset) blocks_.emplace(*offset, Block{bytes, owner, known});
    return offset;
}

// Call with mutex_ held.
std::optional<std::uint64_t> WindowHeap::find_room(std::uint64_t bytes, std::uint64_t alignment) {
    for (Part& part : parts_)
        if (part.is_prepared)
            if (const auto offset = part.free.allocate(bytes, alignment)) return offset;
    for (Part& part : parts_) {
        if (part.is_prepared || part.free.largest() < bytes) continue;
        prepare_(part.extent);
        part.is_prepared = true;
        if (const auto offset = part.free.allocate(bytes, alignment)) return offset;
    }
    return std::nullopt;
}

std::string WindowHeap::left() const {
    const std::lock_guard lock(mutex_);
    std::uint64_t free = 0, largest = 0;
    for (const Part& part : parts_) {
        free += part.free.free_bytes();
        largest = std::max(largest, part.free.largest());
    }
    return fmt::format("{} bytes are free, and no more than {} of them in one piece", free, largest);
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

// Returns the next block. Call with mutex_ held.
WindowHeap::Blocks::iterator WindowHeap::release(Blocks::iterator block) {
    const auto [offset, freed] = *block;
    if (freed.known == Known::to_any_peers && !quarantined_.empty())
        withheld_.push_back({offset, freed.bytes, quarantined_});
    else if (quarantined_.contains(freed.owner))
        withheld_.push_back({offset, freed.bytes, {freed.owner}});
    else
        use_again(offset, freed.bytes);
    return blocks_.erase(block);
}

// Call with mutex_ held.
void WindowHeap::use_again(std::uint64_t offset, std::uint64_t bytes) {
    if (bytes >= discarded_from) discard_(offset, bytes);
    const auto part = std::find_if(parts_.begin(), parts_.end(),
                                   [offset](const Part& one) { return offset < one.extent.end; });
    part->free.release(offset, bytes);
}

void WindowHeap::quarantine(Owner owner) {
    const std::lock_guard lock(mutex_);
    quarantined_.insert(owner);
}

void WindowHeap::end_quarantine(Owner owner) {
    const std::lock_guard lock(mutex_);
    quarantined_.erase(owner);
    std::erase_if(withheld_, [&](Withheld& block) {
        block.for_whom.erase(owner);
        if (!block.for_whom.empty()) return false;
        use_again(block.offset, block.bytes);
        return true;
    });
}

std::uint64_t WindowHeap::free_bytes() const {
    const std::lock_guard lock(mutex_);
    return std::accumulate(parts_.begin(), parts_.end(), std::uint64_t{0},
                           [](auto sum, const Part& part) { return sum + part.free.free_bytes(); });
}

}  // namespace hocket::transport
