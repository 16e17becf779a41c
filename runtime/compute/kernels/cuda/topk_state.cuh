// The data that the kernels of one selection pass to each other, in device memory: the host never waits for
// it.
#pragma once

#include <limits>

#include "runtime/compute/kernels/cuda/device.cuh"
#include "runtime/compute/kernels/cuda/elements.cuh"
#include "runtime/compute/kernels/cuda/ranges.cuh"

namespace hocket::kernels::cuda {

constexpr unsigned bins = 4096;
constexpr unsigned sample_digits = 14, sample_bins = 1u << sample_digits;
constexpr unsigned most_levels = 3;

template <typename Word>
constexpr unsigned digits_of = std::numeric_limits<Word>::digits - 1;  // of a magnitude
// The k-th largest magnitude is found digit by digit. Each level counts the magnitudes from a lowest one, as
// many as fit into the bins of the level: 8, 12 and 11 bits of 31, or 3 and 12 of 15.
template <typename Word>
constexpr unsigned levels = sizeof(Word) == 4 ? 3 : 2;
template <typename Word>
__device__ constexpr unsigned shift_of(unsigned level) {
    if (level + 1 == levels<Word>) return 0;
    return level == 0 && sizeof(Word) == 4 ? 23 : sizeof(Word) == 4 ? 11 : 12;
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
    // Elements of at least the floor are taken out, to select only from these few. 0: none are taken out.
    std::uint32_t floor;
    std::uint32_t few;         // true if enough of them were taken out
    std::uint32_t level;       // the first level that is left to count
    std::uint32_t skip;        // an element is not finite, so nothing is done
    std::uint32_t non_finite;  // a selected element, or, with `skip`, any
    std::uint32_t boundary_known;
    Bisection bisection;
    Counter finish_tickets;
    unsigned sampled_blocks, taken_blocks, counted_parts[most_levels], written_parts, bisected_blocks;
    std::uint64_t counted[most_levels];  // 1: a level is done
    Counter counts[most_levels][bins];
    Counter taken[bins];  // those taken out, by their distance from the floor
    std::uint32_t sampled[sample_bins];
};

// The elements that are left to select from, by ranges: of some those that were taken out, of others all.
template <typename Word>
struct Candidates {
    const Word* all;
    Ranges ranges;
    std::uint32_t* hits;  // of each range: how many reach the floor
    // Those taken out, in ascending order of their indices: ranges.slots for each range.
    Word* words;
    std::uint32_t* indices;
};

// The candidates of a range.
template <typename Word>
struct View {
    const Word* words;
    const std::uint32_t* indices;  // null: first, first + 1, ...
    std::uint64_t first, count;

    __device__ std::uint32_t index(std::uint64_t i) const {
        return indices ? indices[i] : static_cast<std::uint32_t>(first + i);
    }
};
// few: true if elements were taken out. The slots of a range in which more reach the floor don't have all of
// them.
template <typename Word>
__device__ View<Word> view_of(const Candidates<Word>& candidates, bool few, unsigned range) {
    const Ranges& ranges = candidates.ranges;
    if (range >= ranges.number) return {nullptr, nullptr, 0, 0};
    const unsigned hits = few ? candidates.hits[range] : ranges.slots + 1;
    const std::uint64_t slot = std::uint64_t{range} * ranges.slots;
    if (hits <= ranges.slots) return {candidates.words + slot, candidates.indices + slot, 0, hits};
    const std::uint64_t first = ranges.first_of(range), end = ranges.end_of(range);
    return {candidates.all + first, nullptr, first, end > first ? end - first : 0};
}

// Calls use(i, word) for each element of the view, each in one of the warp's lanes.
template <typename Word, typename Use>
__device__ void for_each_of_view(const View<Word>& view, const Use& use) {
    for_each_from(
        lane(), view.count, warp_lanes, warp_lanes * loads_in_flight,
        [&](std::uint64_t i) { return view.words[i]; }, use);
}

}  // namespace hocket::kernels::cuda
