// Updates that identify themselves: weights show which updates of which workers are in them, for any set of
// workers.
//
// Each worker has a slot of its own, of two elements, which each tensor repeats. In each round it adds 1 to
// the first, and the number of the round, from 1, to the second. A sum of n updates of consecutive rounds,
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

// A job of many chunks, each of which has all slots once.
params::Job job_of_faults(std::uint32_t workers, params::Clock staleness, const std::string& tree);

class Weights {
  public:
    explicit Weights(const params::Job& job);

    std::vector<std::byte*> pointers();
    void make_update(std::uint64_t slot, params::Clock round);  // instead of weights

    struct Seen {
        params::Clock first = 0;            // round
        params::Clock least = 0, most = 0;  // over the chunks: the round after the last update
        bool operator==(const Seen&) const = default;
    };
    // By slot: the updates in the weights. firsts: the known first rounds of slots; the call adds unknown
    // ones. Throws std::runtime_error if some chunk has other updates of a worker than those of consecutive
    // rounds from its first one on, each once.
    std::map<std::uint64_t, Seen> read(const params::Layout& layout,
                                       std::map<std::uint64_t, params::Clock>& firsts) const;
    std::uint64_t hash() const;

  private:
    std::vector<std::vector<std::int64_t>> tensors_;
};

}  // namespace hocket::test
