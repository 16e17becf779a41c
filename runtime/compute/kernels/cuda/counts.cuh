// Counts of magnitudes, first in a block's memory, then in the device's.
#pragma once

#include "runtime/compute/kernels/cuda/topk_state.cuh"

namespace hocket::kernels::cuda {

// All threads of a block must call these, which end and begin with a barrier.
__device__ inline void clear_counts(std::uint32_t* of_block) {
    for (unsigned bin = threadIdx.x; bin < bins; bin += block_threads) of_block[bin] = 0;
    __syncthreads();
}
__device__ inline void add_counts(const std::uint32_t* of_block, Counter* counts) {
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < bins; bin += block_threads)
        if (of_block[bin] > 0) atomicAdd(counts + bin, Counter{of_block[bin]});
}

// Returns the bin of an element that reaches the floor; the last bin also has all that are above its own
// range.
template <typename Word>
__device__ unsigned bin_above(Word floor, Word word) {
    const unsigned bin = static_cast<unsigned>(magnitude(word) - floor) >> shift_of<Word>(1);
    return bin < bins ? bin : bins - 1;
}

// Counts the elements of the view that the level before has left, by the level's digits.
template <typename Word>
__device__ void count_digits(const View<Word>& view, std::uint32_t low, unsigned level,
                             std::uint32_t* counts) {
    const unsigned shift = shift_of<Word>(level);
    const std::uint32_t width = level == 0 ? ~0u : (1u << shift_of<Word>(level - 1)) - 1;
    for_each_of_view(view, [&](std::uint64_t, Word word) {
        const std::uint32_t distance = magnitude(word) - low;
        if (distance <= width) atomicAdd(counts + (distance >> shift), 1u);  // leaves those below `low` out
    });
}

}  // namespace hocket::kernels::cuda
