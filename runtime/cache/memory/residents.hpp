// The entries of a shard, found by key. An index with four bytes per slot leads to entries at stable
// addresses. The index often fits into the processor's cache, where whole keys and pointers would not. So a
// hit costs little more than the one memory access that fetches its entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/cache/memory/resident.hpp"

namespace hocket::cache {

// Spreads keys, which are often consecutive, over all bits (the finalizer of MurmurHash3).
constexpr std::uint64_t hash_of(std::uint64_t key) {
    key = (key ^ key >> 33) * 0xff51afd7ed558ccd;
    key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53;
    return key ^ key >> 33;
}

// Not thread-safe. Keeps the memory of removed entries for new ones. Linear probing, at most three quarters
// full.
class Residents {
  public:
    Residents() : slots_(8) {}

    Resident* find(std::uint64_t key) const;  // null: not there
    // The key must not be there. Throws Error(limit) (2^24 entries) or std::bad_alloc, without any change.
    Resident& add(std::uint64_t key);
    void remove(const Resident& resident);  // its state and rank must be 0

    std::size_t size() const { return size_; }
    template <typename Call>
    void for_each(Call call) {
        for (const Slot slot : slots_)
            if (slot != 0) call(at(slot));
    }
    std::size_t memory_bytes() const {
        return (slots_.size() + free_.capacity()) * sizeof(Slot) + chunks_.size() * sizeof(Chunk);
    }

  private:
    static constexpr unsigned index_bits = 24, chunk_bits = 7;
    using Slot = std::uint32_t;  // index of the entry, and 8 bits of the hash above it; 0: empty
    using Chunk = Resident[1 << chunk_bits];

    Resident& at(Slot slot) const {
        const Slot index = slot & ((1u << index_bits) - 1);
        return chunks_[index >> chunk_bits][index & ((1u << chunk_bits) - 1)];
    }
    std::size_t home(std::uint64_t hash) const { return (hash & UINT32_MAX) * slots_.size() >> 32; }
    static Slot tag(std::uint64_t hash) { return static_cast<Slot>(hash >> 32) << index_bits; }
    std::size_t after(std::size_t i) const { return i + 1 < slots_.size() ? i + 1 : 0; }
    std::size_t distance(std::size_t from, std::size_t to) const {
        return to >= from ? to - from : to + slots_.size() - from;
    }
    void place(std::uint64_t hash, Slot index);
    void grow_index();
    void grow_entries();

    std::vector<Slot> slots_;
    std::size_t size_ = 0;
    std::vector<std::unique_ptr<Resident[]>> chunks_;
    std::vector<Slot> free_;  // indices of entries; never grows beyond its capacity
};

inline Resident* Residents::find(std::uint64_t key) const {
    const std::uint64_t hash = hash_of(key);
    for (std::size_t i = home(hash); slots_[i] != 0; i = after(i)) {
        if ((slots_[i] ^ tag(hash)) >> index_bits != 0) continue;
        Resident& resident = at(slots_[i]);
        if (resident.key == key) return &resident;
    }
    return nullptr;
}

}  // namespace hocket::cache
