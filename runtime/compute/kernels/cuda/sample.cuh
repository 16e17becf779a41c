// Estimates, from a sample, a magnitude that slightly more than k elements reach or exceed.
#pragma once

#include <cmath>

#include "runtime/compute/kernels/cuda/topk_state.cuh"

namespace hocket::kernels::cuda {

// The number of sampled elements, in lines of a warp's width spread over all elements.
struct SamplePlan {
    std::uint64_t lines;     // the number of all lines
    std::uint32_t sampled;   // the number of sampled lines; 0: sampling does not pay
    std::uint64_t wanted;    // the number of sampled elements that should reach the floor
    std::uint64_t too_many;  // if more do, the floor excludes too little
};

// Above this, taking elements out saves less than it costs.
constexpr std::uint64_t most_taken_of(std::uint64_t count) {
    return count / 8;
}

inline SamplePlan plan_sample(std::uint64_t count, std::uint64_t k) {
    constexpr std::uint64_t fewest = 8192, most = 1u << 18;
    // Enough that about 256 of the k largest are among them, but at most an eighth of all.
    std::uint64_t elements = 256 * (count / k);
    elements = elements < fewest ? fewest : elements > most ? most : elements;
    elements = elements < count / 8 ? elements : count / 8;
    SamplePlan plan{count / warp_lanes, static_cast<std::uint32_t>(elements / warp_lanes), 0, 0};
    const double part = static_cast<double>(plan.sampled * warp_lanes) / static_cast<double>(count);
    const double mean = part * static_cast<double>(k);
    plan.wanted = static_cast<std::uint64_t>(mean + 4 * std::sqrt(mean) + 4);
    plan.too_many = static_cast<std::uint64_t>(part * (2.5 * static_cast<double>(k) + 32 * 1024)) + 1;
    if (elements < fewest || plan.wanted >= plan.too_many || k > most_taken_of(count)) plan.sampled = 0;
    return plan;
}
constexpr unsigned lines_of_warp = 4;
inline unsigned sample_blocks(const SamplePlan& plan) {
    return (plan.sampled + block_warps * lines_of_warp - 1) / (block_warps * lines_of_warp);
}

template <typename Elements>
__global__ void __launch_bounds__(block_threads)
    sample_floor(Elements elements, SamplePlan plan, State* state) {
    using Word = typename Elements::Word;
    constexpr unsigned shift = digits_of<Word> - sample_digits;
    if (state->skip) return;
    const unsigned first = (blockIdx.x * block_warps + warp()) * lines_of_warp;
    Word words[lines_of_warp];
    for (unsigned i = 0; i < lines_of_warp; ++i) {
        // Multiples of the golden ratio are spread evenly.
        const std::uint64_t fraction = (first + i) * 0x9e3779b97f4a7c15 >> 32,
                            line = fraction * plan.lines >> 32;
        if (first + i < plan.sampled) words[i] = elements.load(line * warp_lanes + lane());
    }
    for (unsigned i = 0; i < lines_of_warp && first + i < plan.sampled; ++i) {
        const unsigned bin = magnitude(words[i]) >> shift;
        const unsigned same = __match_any_sync(all_lanes, bin);
        if (lanes_below(same) == 0) atomicAdd(state->sampled + bin, bits_of(same));
    }
    if (!is_last_block(&state->sampled_blocks)) return;
    const Found found = find_from_top(state->sampled, sample_bins, plan.wanted);
    if (threadIdx.x == 0 && found.above + found.at <= plan.too_many) state->floor = found.bin << shift;
}

}  // namespace hocket::kernels::cuda
