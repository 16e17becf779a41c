// What an algorithm moves: which value comes from which, whatever threadblocks carry it.
#pragma once

#include <vector>

#include "tools/schedc/imports/algorithm.hpp"

namespace hocket::tools::imports {

// Numbers places of one chunk. Input and output have places in x, or of an exchange in y, which stay where
// they are; scratch chunks, and values that a step only passes on, have places of their own behind them.
class Slots {
  public:
    explicit Slots(const Algorithm& algorithm);

    int of(int gpu, const Chunks& chunks) const;
    int fixed(int gpu, bool in_second, int chunk) const {
        return (gpu * 2 + (in_second ? 1 : 0)) * chunks_ + chunk;
    }
    int fixed_count() const { return ranks_ * 2 * chunks_; }
    bool is_fixed(int slot) const { return slot < fixed_count(); }
    int all() const { return scratch_begin_.back(); }

    int scratch_offset(int slot, int gpu) const { return slot - scratch_begin_[gpu]; }
    bool in_second(int fixed_slot) const { return fixed_slot / chunks_ % 2 == 1; }
    int gpu_of(int fixed_slot) const { return fixed_slot / chunks_ / 2; }
    int chunk_of(int fixed_slot) const { return fixed_slot % chunks_; }

    // True if chunks belong to ranks: a piece may then lie in the place of another.
    bool by_rank() const { return by_rank_; }
    bool has_second() const { return has_second_; }

  private:
    int chunks_, piece_, ranks_;
    bool by_rank_, has_second_;
    std::vector<int> input_begin_, output_begin_, scratch_begin_;  // by GPU
};

// A value in a slot, from when it is written until the next one is.
struct Version {
    int slot = 0;
    int chunk = 0;           // of the inputs that it is made of
    int base = -1;           // the version that was combined into; -1: a copy, or there from the start
    bool by_output = false;  // written as a part of the output, not of an input that has the same place
    bool is_result = false;  // what the collective promises
    std::vector<int> writers, readers;  // moves; several writers combine
    Place made;
};

// Brings a version from one place to another, or combines it into that.
struct Move {
    int source = 0, target = 0;  // versions
    bool combines = false;
    int from = 0, to = 0;
    Place sender, receiver;  // the same step if nothing is sent
    bool is_dropped = false;
};

struct Flow {
    Slots slots;
    int slot_count = 0;
    std::vector<Version> versions;  // each behind those that it is made of
    std::vector<Move> moves;
};

// Leaves out scratch chunks that only pass a value on to a step of the same GPU: the value then comes from
// where it was before. And what nothing reads.
void shorten(Flow& flow);

}  // namespace hocket::tools::imports
