// An entry of the memory level's table: a sample that is in memory, or being loaded.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/cache/memory/arena.hpp"

namespace hocket::cache {

// When a sample is needed next: a position of the order, or a number behind all positions. Of samples without
// a position, one that was used later is needed later, and one that has not been used is needed first.
inline constexpr std::uint64_t behind_the_order = std::uint64_t{1} << 61;

// One cache line, because a hit touches nothing else. Its address is stable, and its memory is not given back
// to the system while the table lives. The shard's lock guards key, data, bytes, next, previous and the
// flags; the eviction queue's lock guards rank; state is atomic, without a lock; link belongs to the list
// that the entry is on.
struct alignas(64) Resident {
    // state: the number of pins and two flags. A pinned sample has one of the flags, which tells the thread
    // that unpins it what to do, without a lock.
    static constexpr std::uint32_t listed = 1u << 31;  // in its shard's list: the queue has an outdated rank
    static constexpr std::uint32_t parked = 1u << 30;  // not in the list: the last release adds it
    static constexpr std::uint32_t pins = parked - 1;

    static constexpr std::uint64_t none = UINT64_MAX;
    static constexpr std::uint64_t used_copy = std::uint64_t{1} << 62;

    std::atomic<std::uint32_t> state{0};
    bool is_copy = false, is_used = false, is_prefetched = false;
    std::uint64_t key = 0;
    std::byte* data = nullptr;  // null: it is being loaded
    std::uint64_t bytes = 0;
    std::uint64_t next = behind_the_order;  // plus the time of its last use, if any
    std::uint64_t previous = none;          // the last position at which it was used
    std::uint64_t rank = 0;                 // the highest rank is evicted first; 0: not to be evicted
    Resident* link = nullptr;

    Block block() const { return {data, Arena::rounded(bytes)}; }
    std::uint64_t rank_now() const { return 1 + next + (is_copy && is_used ? used_copy : 0); }

    // Returns the rank for a position. For a sample needed at `position`, only samples with a higher rank may
    // be evicted.
    static std::uint64_t rank_of(std::uint64_t position) { return 1 + std::min(position, behind_the_order); }
};
static_assert(sizeof(Resident) == 64);

}  // namespace hocket::cache
