// Finds the k-th largest magnitude among the candidates, and writes the selected elements: all in one kernel.
//
// The kernel does its work in steps, each divided into as many parts as the grid has blocks: the levels that
// are left to count, and the writing. Blocks take parts by ticket, and a block waits only for parts with
// earlier tickets, which running blocks have. So no wait depends on blocks that have not started.
#pragma once

#include "runtime/compute/kernels/cuda/counts.cuh"
#include "runtime/compute/kernels/cuda/emit.cuh"

namespace hocket::kernels::cuda {

// Counts a part of a level. The block that ends it narrows the boundary.
template <typename Word>
__device__ void count_part(const View<Word>& view, std::uint64_t k, unsigned level, State* state) {
    HOCKET_SHARED(std::uint32_t[bins], counts);
    clear_counts(counts);
    count_digits(view, state->low, level, counts);
    add_counts(counts, state->counts[level]);
    if (!is_last_block(state->counted_parts + level)) return;
    const Found found = find_from_top(state->counts[level], bins, k - state->above);
    if (threadIdx.x != 0) return;
    state->above += found.above;
    state->at = found.at;
    state->low += found.bin << shift_of<Word>(level);
    store_release(state->counted + level, 1);
}

// Waits until the level is counted. All threads of a block must call it.
__device__ inline void wait_for_level(const State* state, unsigned level) {
    if (threadIdx.x == 0)
        while (load_acquire(state->counted + level) == 0) {
        }
    __syncthreads();
}

// written: a word for each part, which must be 0.
template <typename Word, typename Output>
__global__ void __launch_bounds__(block_threads, blocks_of_multiprocessor)
    finish(Candidates<Word> candidates, std::uint64_t k, Draw draw, Output output, std::uint64_t* written,
           State* state, std::uint64_t* selected, std::uint32_t* non_finite) {
    if (state->skip) {
        if (blockIdx.x == 0 && threadIdx.x == 0) write_results(*state, 0, selected, non_finite);
        return;
    }
    const bool all = k == candidates.ranges.count, known = all || state->boundary_known, few = state->few;
    const unsigned first = known ? levels<Word> : state->level;
    for (;;) {
        const std::uint64_t ticket = next_ticket(&state->finish_tickets);
        const auto level = first + static_cast<unsigned>(ticket / gridDim.x);
        const auto part = static_cast<unsigned>(ticket % gridDim.x);
        if (level > levels<Word>) return;
        if (level > first) wait_for_level(state, level - 1);
        const View<Word> view = view_of(candidates, few, part * block_warps + warp());
        if (level < levels<Word>) {
            count_part(view, k, level, state);
            continue;
        }
        const Boundary boundary(*state, k, all, draw);
        if (!write_part(view, boundary, output, part, written)) atomicOr(&state->non_finite, 1u);
        if (is_last_block(&state->written_parts) && threadIdx.x == 0)
            write_results(*state, k, selected, non_finite);
    }
}

}  // namespace hocket::kernels::cuda
