// Updates that say of themselves which they are: from weights one can read which updates of which workers are
// in them, whoever has taken part.
//
// Each worker has a slot of its own, of two elements, again and again in each tensor. In each round it adds 1
// to the first, and the number of the round, from 1, to the second. A sum of n updates of consecutive rounds,
// each once, then says which the first one was; any other set of updates gives a first one that is another,
// or none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/params/job/job.hpp"

namespace hocket::test {

inline constexpr std::uint64_t slots = 256;

// Of many chunks: each has all slots once.
params::Job job_of_faults(std::uint32_t workers, params::Clock staleness, const std::string& tree);

class Weights {
  public:
    explicit Weights(const params::Job& job);

    std::vector<std::byte*> pointers();
    void make_update(std::uint64_t slot, params::Clock round);  // instead of weights

    struct Seen {
        params::Clock first = 0;            // round
        params::Clock least = 0, most = 0;  // of its chunks: the round after the last
        bool operator==(const Seen&) const = default;
    };
    // By slot: what is in the weights. firsts: what is known of the slots' first rounds; what is not is
    // added. Throws std::runtime_error if some chunk has other updates of a worker than those of consecutive
    // rounds from its first one on, each once.
    std::map<std::uint64_t, Seen> read(const params::Layout& layout,
                                       std::map<std::uint64_t, params::Clock>& firsts) const;
    std::uint64_t hash() const;

  private:
    std::vector<std::vector<std::int64_t>> tensors_;
};

}  // namespace hocket::test
