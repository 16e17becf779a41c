// Finds a threshold by the paper's own algorithm, as kernels/cpu/paper_topk.hpp documents. The order of the
// additions is fixed here, too.
#pragma once

#include "runtime/compute/kernels/cuda/topk_state.cuh"

namespace hocket::kernels::cuda {

constexpr std::uint64_t paper_chunk = 4096;  // elements with a sum of their own, formed by as many lanes:
constexpr unsigned paper_lanes = 16;

template <typename Stored>
using WordOf = std::conditional_t<sizeof(Stored) == 4, std::uint32_t, std::uint16_t>;
template <typename Stored>
__device__ float value_of(WordOf<Stored> bits) {
    return widened(std::bit_cast<Stored>(bits));
}

// Returns the least magnitude that is not below the number.
template <typename Stored>
__device__ std::uint32_t at_least(double number, std::uint32_t infinity) {
    std::uint32_t low = 0, high = infinity;
    while (low < high) {
        const std::uint32_t middle = low + (high - low) / 2;
        if (value_of<Stored>(static_cast<WordOf<Stored>>(middle)) < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Sums each chunk's finite magnitudes, and finds the number and the largest of all.
template <typename Stored>
__global__ void __launch_bounds__(block_threads)
    sum_magnitudes(const WordOf<Stored>* words, std::uint64_t count, std::uint32_t infinity, double* sums,
                   State* state) {
    if (state->skip) return;
    const std::uint64_t chunks = (count + paper_chunk - 1) / paper_chunk;
    constexpr unsigned at_a_time = block_threads / paper_lanes;
    for (std::uint64_t row = blockIdx.x; row * at_a_time < chunks; row += gridDim.x) {
        const std::uint64_t chunk = row * at_a_time + threadIdx.x / paper_lanes;
        const std::uint64_t begin = chunk * paper_chunk + threadIdx.x % paper_lanes;
        const std::uint64_t end = (chunk + 1) * paper_chunk < count ? (chunk + 1) * paper_chunk : count;
        double sum = 0;
        float largest = 0;
        Counter finite = 0;
        constexpr unsigned steps = 8;  // loads in flight at a time
        for (std::uint64_t first = begin; first < end; first += steps * paper_lanes) {
            WordOf<Stored> sizes[steps];
            for (unsigned step = 0; step < steps; ++step) {
                const std::uint64_t i = first + step * paper_lanes;
                sizes[step] = i < end ? magnitude(words[i]) : static_cast<WordOf<Stored>>(infinity);
            }
            for (const auto size : sizes) {
                const float value = size < infinity ? value_of<Stored>(size) : 0;  // 0 does not change a sum
                sum = __dadd_rn(sum, value);
                largest = value > largest ? value : largest;
                finite += size < infinity;
            }
        }
        for (unsigned width = paper_lanes / 2; width > 0; width /= 2) {
            const double other = __shfl_down_sync(all_lanes, sum, width);
            if (lane() % paper_lanes < width) sum = __dadd_rn(sum, other);
        }
        if (lane() % paper_lanes == 0 && chunk < chunks) sums[chunk] = sum;
        atomicMax(&state->bisection.largest, std::bit_cast<std::uint32_t>(largest));
        const Counter of_warp = sum_of_warp(finite);
        if (lane() == 0) atomicAdd(&state->bisection.finite, of_warp);
    }
}

// Sets the boundary of the selection, in case the search ends here.
__device__ inline void set_boundary(State& state, std::uint32_t sure, std::uint32_t perhaps) {
    state.high = sure;
    state.low = perhaps;
    state.above = state.bisection.reached_sure;
    state.at = state.bisection.reached_perhaps - state.bisection.reached_sure;
}

// Adds the chunks' sums in order. Runs as one warp.
template <typename Stored>
__global__ void find_mean(const double* sums, std::uint64_t count, std::uint64_t k, std::uint32_t infinity,
                          State* state) {
    if (state->skip) return;
    const std::uint64_t chunks = (count + paper_chunk - 1) / paper_chunk;
    double sum = 0;
    for (std::uint64_t first = 0; first < chunks; first += warp_lanes) {
        const double own = first + lane() < chunks ? sums[first + lane()] : 0;
        const unsigned here =
            chunks - first < warp_lanes ? static_cast<unsigned>(chunks - first) : warp_lanes;
        for (unsigned i = 0; i < here; ++i) sum = __dadd_rn(sum, __shfl_sync(all_lanes, own, i));
    }
    if (lane() != 0) return;
    Bisection& search = state->bisection;
    state->boundary_known = count - search.finite < k;  // otherwise the selection is exact
    search.done = !state->boundary_known;
    search.low = sum / static_cast<double>(search.finite);
    search.threshold = search.at_mean = at_least<Stored>(search.low, infinity);
}

// Chooses the next step of the search, once the elements that reach a threshold have been counted.
template <typename Stored>
__device__ void choose_next(State& state, std::uint64_t count, std::uint64_t k, bool first,
                            std::uint32_t infinity) {
    Bisection& search = state.bisection;
    if (first) {
        const bool above_mean = search.reached > k;
        search.high = above_mean ? static_cast<double>(std::bit_cast<float>(search.largest)) : search.low;
        search.low = above_mean ? search.low : 0;
        search.reached_sure = above_mean ? count - search.finite : search.reached;
        search.reached_perhaps = above_mean ? search.reached : count;
        set_boundary(state, above_mean ? infinity : search.at_mean, above_mean ? search.at_mean : 0);
        search.right = 1;
    } else if (search.reached <= k) {
        search.right = search.ratio;
        search.reached_sure = search.reached;
        set_boundary(state, search.threshold, state.low);
    } else {
        search.left = search.ratio;
        search.reached_perhaps = search.reached;
        set_boundary(state, state.high, search.threshold);
    }
    if (!first && search.reached == k) search.done = 1;  // other thresholds would not change the selection
    search.reached = 0;
    search.ratio = search.left + (search.right - search.left) / 2;
    const double step = __dmul_rn(search.ratio, __dsub_rn(search.high, search.low));
    search.threshold = at_least<Stored>(__dadd_rn(search.low, step), infinity);
}

template <typename Stored>
__global__ void __launch_bounds__(block_threads)
    bisect(const WordOf<Stored>* words, std::uint64_t count, std::uint64_t k, bool first,
           std::uint32_t infinity, State* state) {
    if (state->skip || state->bisection.done) return;
    const std::uint32_t threshold = state->bisection.threshold;
    Counter reached = 0;
    for_each_of_grid(
        count, [&](std::uint64_t i) { return words[i]; },
        [&](std::uint64_t, WordOf<Stored> word) { reached += magnitude(word) >= threshold; });
    reached = sum_of_warp(reached);
    if (lane() == 0) atomicAdd(&state->bisection.reached, reached);
    if (!is_last_block(&state->bisected_blocks) || threadIdx.x != 0) return;
    state->bisected_blocks = 0;
    choose_next<Stored>(*state, count, k, first, infinity);
}

}  // namespace hocket::kernels::cuda
