// A part of the memory level's table, with a lock of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/cache/memory/order.hpp"
#include "runtime/cache/memory/resident.hpp"
#include "runtime/cache/memory/residents.hpp"

namespace hocket::cache {

class Waiter;

struct Wait {
    Waiter* waiter;
    std::size_t index;
};

// What a hit writes comes first. The caller holds the mutex, except for atomic members, list() and release().
struct alignas(64) Shard {
    std::mutex mutex;
    std::atomic<Resident*> listed{nullptr};    // whose rank is outdated
    std::atomic<const Order*> order{nullptr};  // null: none, or it is being replaced
    std::atomic<std::uint64_t> cursor{0};      // behind the last position that was used here
    Residents residents;
    std::uint64_t hits = 0, misses = 0, prefetched = 0;
    std::unordered_map<std::uint64_t, std::vector<Wait>> waiting;  // by key; of those that are being loaded

    // A sample that is to be loaded. cursor: of all shards.
    Resident& add(std::uint64_t key, std::uint64_t cursor);
    Resident& loading(std::uint64_t key);  // throws Error(internal): it is not being loaded
    std::vector<Wait> take_waiting(std::uint64_t key);

    void pin(Resident& resident);
    void publish(Resident& resident, const Block& block, std::uint64_t bytes, std::uint32_t pins);

    // From now on samples are needed in this order; null: there is none. now: counts as the last use of
    // samples that have been used, and have no position in it.
    void set_order(const Order* to, std::uint64_t now);
    // The get stands for the sample's next position.
    void use_next(Resident& resident);

    // Lock-free. Unpins; true if that was the last pin.
    bool release(Resident& resident);
    void list(Resident& resident);  // resident's state says so
};

}  // namespace hocket::cache
