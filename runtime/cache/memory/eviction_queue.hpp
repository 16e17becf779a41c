// Who is to be evicted first. Ranks are corrected lazily: a sample whose rank has changed is pushed again,
// and what the queue knew of it before is passed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/cache/memory/resident.hpp"

namespace hocket::cache {

// Not thread-safe. The owner of its lock owns Resident::rank too, which is 0 for those not in here.
class EvictionQueue {
  public:
    // Whether it is in here or not.
    void push(Resident& resident, std::uint64_t rank);
    // Takes the sample with the highest rank, if that is higher than `above`. Null: none.
    Resident* pop(std::uint64_t above);
    // Takes all with a rank below.
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
