// Which steps are over when another one begins, whatever the speed of threadblocks: vector clocks.
#pragma once

#include <algorithm>
#include <vector>

#include "tools/schedc/imports/algorithm.hpp"

namespace hocket::tools::imports {

// Of each threadblock of all GPUs, how many of its steps are over.
using Clock = std::vector<int>;

inline void join(Clock& clock, const Clock& other) {
    for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

// The steps that have used a chunk since it was written.
class Uses {
  public:
    struct Use {
        int block = -1;  // of all GPUs
        int step = 0;
        Place place;
    };

    // Returns a use that need not be over when a step of `block` with this clock reads or writes; its block
    // is -1 if there is none.
    Use race(int block, const Clock& clock, bool writes) const {
        const auto is_open = [&](const Use& use) {
            return use.block >= 0 && use.block != block && clock[use.block] <= use.step;
        };
        if (is_open(write_)) return write_;
        if (writes)
            for (const Use& read : reads_)
                if (is_open(read)) return read;
        return {};
    }

    // acts_once: no step of the block has read before.
    void read(const Use& use, bool acts_once) {
        const auto earlier = acts_once ? reads_.end() : std::ranges::find(reads_, use.block, &Use::block);
        if (earlier != reads_.end())
            *earlier = use;
        else
            reads_.push_back(use);
    }

    void write(const Use& use) {
        write_ = use;
        reads_.clear();
    }

  private:
    Use write_;
    std::vector<Use> reads_;
};

}  // namespace hocket::tools::imports
