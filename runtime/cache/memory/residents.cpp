#include "runtime/cache/memory/residents.hpp"

#include <fmt/format.h>

#include "runtime/base/error.hpp"

namespace hocket::cache {

Resident& Residents::add(std::uint64_t key) {
    if (4 * (size_ + 1) > 3 * slots_.size()) grow_index();
    if (free_.empty()) grow_entries();
    const Slot index = free_.back();
    free_.pop_back();
    place(hash_of(key), index);
    ++size_;
    Resident& resident = at(index);
    resident.key = key;
    resident.is_copy = resident.is_used = resident.is_prefetched = false;
    resident.data = nullptr;
    resident.next = behind_the_order;
    resident.previous = Resident::none;
    return resident;
}

// Moves up the entries that follow without a gap, unless one would come before its home slot.
void Residents::remove(const Resident& resident) {
    std::size_t gap = home(hash_of(resident.key));
    while (&at(slots_[gap]) != &resident) gap = after(gap);
    free_.push_back(slots_[gap] & ((1u << index_bits) - 1));
    for (std::size_t i = after(gap); slots_[i] != 0; i = after(i)) {
        if (distance(home(hash_of(at(slots_[i]).key)), i) < distance(gap, i)) continue;
        slots_[gap] = slots_[i];
        gap = i;
    }
    slots_[gap] = 0;
    --size_;
}

void Residents::place(std::uint64_t hash, Slot index) {
    std::size_t i = home(hash);
    while (slots_[i] != 0) i = after(i);
    slots_[i] = tag(hash) | index;
}

// Grows in small steps, so that the index stays small.
void Residents::grow_index() {
    std::vector<Slot> old(slots_.size() + slots_.size() / 4);
    old.swap(slots_);
    for (const Slot slot : old)
        if (slot != 0) place(hash_of(at(slot).key), slot & ((1u << index_bits) - 1));
}

void Residents::grow_entries() {
    const std::size_t count = chunks_.size() << chunk_bits, more = 1 << chunk_bits;
    if (count + more > (1u << index_bits))
        throw Error(Status::limit, fmt::format("the cache's memory holds about {} million samples, which is "
                                               "its limit: store several samples under one key",
                                               count * 64 / 1'000'000));
    free_.reserve(count + more);
    chunks_.reserve(chunks_.size() + 1);
    chunks_.push_back(std::make_unique<Resident[]>(more));
    for (std::size_t i = more; i-- > 0;)
        // Index 0 would look like an empty slot.
        if (count + i > 0) free_.push_back(static_cast<Slot>(count + i));
}

}  // namespace hocket::cache
