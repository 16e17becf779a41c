// Finds the k-th largest magnitude: counts magnitudes by their leading digits, then those with the right
// leading digits by the digits that follow.
#pragma once

#include "runtime/compute/kernels/cuda/topk_state.cuh"

namespace hocket::kernels::cuda {

// Counts the elements whose digits before this level's equal those of `low`.
template <typename Word>
__device__ void count_digits(const View<Word>& view, std::uint32_t low, unsigned level, Counter* counts) {
    HOCKET_SHARED(std::uint32_t[bins], of_block);
    const unsigned shift = shift_of<Word>(level);
    const std::uint32_t width = level == 0 ? ~0u : (1u << shift_of<Word>(level - 1)) - 1;
    for (unsigned bin = threadIdx.x; bin < bins; bin += block_threads) of_block[bin] = 0;
    __syncthreads();
    for_each_of_grid(
        view.count, [&](std::uint64_t i) { return view.words[i]; },
        [&](std::uint64_t, Word word) {
            const std::uint32_t distance = magnitude(word) - low;
            if (distance <= width) atomicAdd(of_block + (distance >> shift), 1u);  // skips those below `low`
        });
    __syncthreads();
    for (unsigned bin = threadIdx.x; bin < bins; bin += block_threads)
        if (of_block[bin] > 0) atomicAdd(counts + bin, Counter{of_block[bin]});
}

template <typename Word>
__global__ void __launch_bounds__(block_threads)
    narrow(Candidates<Word> candidates, std::uint64_t k, unsigned level, State* state) {
    if (state->skip || state->boundary_known) return;
    const View<Word> view = view_of(candidates, *state);
    count_digits(view, state->low, level, state->counts[level]);
    if (!is_last_block(state->counted_blocks + level)) return;
    const Found found = find_from_top(state->counts[level], bins, k - state->above);
    if (threadIdx.x != 0) return;
    state->above += found.above;
    state->at = found.at;
    state->low += found.bin << shift_of<Word>(level);
    const bool fits = state->above + state->at <= candidates.room;
    if (level == 0 && !state->few && fits) state->exact_floor = state->low;
}

// Sets the state to select all elements.
static __global__ void select_all(std::uint64_t count, State* state) {
    if (threadIdx.x != 0 || blockIdx.x != 0) return;
    state->above = count;
    state->boundary_known = 1;
}

}  // namespace hocket::kernels::cuda
