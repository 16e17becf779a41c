// A part of the memory level's table, with its own lock.
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

// The members that a hit writes come first. The caller holds the mutex, except for atomic members, list() and
// release().
struct alignas(64) Shard {
    std::mutex mutex;
    std::atomic<Resident*> listed{nullptr};    // entries whose rank is outdated
    std::atomic<const Order*> order{nullptr};  // null: none, or it is being replaced
    std::atomic<std::uint64_t> cursor{0};      // behind the last position that was used here
    Residents residents;
    std::uint64_t hits = 0, misses = 0, prefetched = 0;
    std::unordered_map<std::uint64_t, std::vector<Wait>> waiting;  // by key; of samples being loaded

    // Adds a sample that is to be loaded. cursor: that of all shards.
    Resident& add(std::uint64_t key, std::uint64_t cursor);
    Resident& loading(std::uint64_t key);  // throws Error(internal) if it is not being loaded
    std::vector<Wait> take_waiting(std::uint64_t key);

    void pin(Resident& resident);
    void publish(Resident& resident, const Block& block, std::uint64_t bytes, std::uint32_t pins);

    // Sets the order in which samples are needed from now on; null for none. now: counts as the time of last
    // use for used samples that have no position in it.
    void set_order(const Order* to, std::uint64_t now);
    // Counts the get as the sample's next position.
    void use_next(Resident& resident);

    // Lock-free. Unpins; returns true if that was the last pin.
    bool release(Resident& resident);
    void list(Resident& resident);  // resident's state must say so already
};

}  // namespace hocket::cache
