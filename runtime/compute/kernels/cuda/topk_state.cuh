// The data that the kernels of one selection pass to each other, in device memory: the host never waits for
// it.
#pragma once

#include <limits>

#include "runtime/compute/kernels/cuda/device.cuh"
#include "runtime/compute/kernels/cuda/elements.cuh"

namespace hocket::kernels::cuda {

constexpr unsigned take_out_steps = 16, emit_steps = 8;  // elements per thread in a tile
constexpr std::uint64_t take_out_tile = block_threads * take_out_steps,
                        emit_tile = block_threads * emit_steps;

constexpr unsigned digits_of_bin = 11, bins = 1u << digits_of_bin;
constexpr unsigned sample_digits = 14, sample_bins = 1u << sample_digits;
constexpr unsigned most_levels = 3;

template <typename Word>
constexpr unsigned digits_of = std::numeric_limits<Word>::digits - 1;  // of a magnitude
// shift_of: the shift of a magnitude at a level. The levels together cover all digits.
template <typename Word>
constexpr unsigned levels = (digits_of<Word> + digits_of_bin - 1) / digits_of_bin;
template <typename Word>
constexpr unsigned shift_of(unsigned level) {
    const unsigned seen = digits_of_bin * (level + 1);
    return seen < digits_of<Word> ? digits_of<Word> - seen : 0;
}

// The search for a threshold by the paper's Algorithm 1; see paper.cuh.
struct Bisection {
    double low, high, left, right, ratio;
    std::uint32_t threshold;  // a magnitude: the elements that reach it are counted next
    std::uint32_t at_mean;
    std::uint32_t done;
    std::uint32_t largest;  // bits of a float
    Counter finite, reached, reached_sure, reached_perhaps;
};

// Initially all 0.
struct State {
    // The range of the k-th largest magnitude.
    std::uint64_t above, at;  // the number of elements above the boundary, and at it
    // The boundary: magnitudes from low to high - 1. A high of 0 stands for low + 1.
    std::uint32_t low, high;
    // Elements of at least a floor are taken out, to select only from these few. 0: none are taken out.
    std::uint32_t floor;        // from a sample
    std::uint32_t exact_floor;  // from counts of all elements, if too many or too few reached `floor`
    std::uint32_t few;          // true if they were taken out
    std::uint64_t found;        // the number of them
    std::uint32_t skip;         // an element is not finite, so nothing is done
    std::uint32_t non_finite;   // used if the caller does not ask for it
    std::uint32_t boundary_known;
    Bisection bisection;
    Counter take_out_tickets, take_out_again_tickets, emit_tickets;
    unsigned sampled_blocks, counted_blocks[most_levels], bisected_blocks;
    Counter counts[most_levels][bins];
    std::uint32_t sampled[sample_bins];
};

// The elements that are left to select from: all, or the few that were taken out.
template <typename Word>
struct Candidates {
    const Word* all;
    std::uint64_t count;
    Word* words;  // those taken out, in ascending order of their indices
    std::uint32_t* indices;
    std::uint64_t room;
};

template <typename Word>
struct View {
    const Word* words;
    const std::uint32_t* indices;  // null: 0, 1, ...
    std::uint64_t count;
};
template <typename Word>
__device__ View<Word> view_of(const Candidates<Word>& candidates, const State& state) {
    if (state.few) return {candidates.words, candidates.indices, state.found};
    return {candidates.all, nullptr, candidates.count};
}

}  // namespace hocket::kernels::cuda
