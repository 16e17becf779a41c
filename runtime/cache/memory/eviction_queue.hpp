// Selects the sample to be evicted first. Ranks are corrected lazily: a sample whose rank has changed is
// pushed again, and the queue skips its old entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cache/memory/resident.hpp"

namespace hocket::cache {

// Not thread-safe. The lock that guards it also guards Resident::rank, which is 0 for samples that are not in
// the queue.
class EvictionQueue {
  public:
    // The sample may be in the queue already.
    void push(Resident& resident, std::uint64_t rank);
    // Removes and returns the sample with the highest rank if that is higher than `above`; otherwise returns
    // null.
    Resident* pop(std::uint64_t above);
    // Removes and returns all samples with a lower rank.
    std::vector<Resident*> take_below(std::uint64_t rank);

    std::size_t size() const { return size_; }
    std::size_t memory_bytes() const { return nodes_.capacity() * sizeof(Node); }

  private:
    struct Node {
        std::uint64_t rank;
        Resident* resident;
        bool is_right() const { return resident->rank == rank; }
        bool operator<(const Node& other) const { return rank < other.rank; }
    };
    void pop_node();
    void drop(Resident& resident);
    void forget_outdated();

    std::vector<Node> nodes_;  // a max-heap
    std::size_t size_ = 0;     // without outdated nodes
};

}  // namespace hocket::cache
