// Writes the selected elements, in ascending order of their indices.
#pragma once

#include "runtime/compute/kernels/cuda/kernels.hpp"
#include "runtime/compute/kernels/cuda/topk_state.cuh"

namespace hocket::kernels::cuda {

// The output of elements that are selected unchanged. `write` returns true if the element is finite.
template <typename Word>
struct PlainOutput {
    Word* values;
    std::uint32_t* indices;
    Word infinity;

    __device__ bool write(std::uint64_t position, Word word, std::uint32_t index) const {
        values[position] = word;
        indices[position] = index;
        return magnitude(word) < infinity;
    }
};

// The output of sums: `values` receives the part to send, and the residual the rest.
struct SettledOutput {
    void* values;
    std::uint32_t* indices;
    float* residual;
    DataType sent_as;

    __device__ bool write(std::uint64_t position, std::uint32_t word, std::uint32_t index) const {
        const auto sum = std::bit_cast<float>(word);
        const Split parts = split_on_device(sum, sent_as);
        write_as(sent_as, parts.sent, values, position);
        indices[position] = index;
        residual[index] = parts.left;
        return is_finite(sum);
    }
};

// The boundary of the selection, and the elements at it that are selected.
struct Boundary {
    std::uint64_t low, high;
    std::uint64_t needed, from;  // of the elements at the boundary, this many are selected, from this one on

    // all: every element is selected, and no boundary has been looked for.
    __device__ Boundary(const State& state, std::uint64_t k, bool all, const Draw& draw)
        : low(all ? 0 : state.low),
          high(all                    ? 0
               : state.boundary_known ? state.high
                                      : low + 1),
          needed(all ? 0 : k - state.above),
          from(all ? 0 : first_of_ties(draw, state.at, needed)) {}

    __device__ bool takes(std::uint64_t tie) const { return tie >= from && tie - from < needed; }
    // Returns how many of the first `ties` are selected.
    __device__ std::uint64_t taken_of(std::uint64_t ties) const {
        const std::uint64_t behind = ties > from ? ties - from : 0;
        return behind < needed ? behind : needed;
    }
};

// Numbers of elements above the boundary, and at it.
struct Reaching {
    std::uint64_t above, ties;
};

// A part's numbers in a word, with a bit that says that they are there.
constexpr unsigned reaching_bits = 31;
__device__ inline std::uint64_t packed(const Reaching& numbers) {
    return std::uint64_t{1} << 2 * reaching_bits | numbers.above << reaching_bits | numbers.ties;
}
__device__ inline Reaching unpacked(std::uint64_t word) {
    constexpr std::uint64_t mask = (std::uint64_t{1} << reaching_bits) - 1;
    return {word >> reaching_bits & mask, word & mask};
}

template <typename Word>
__device__ Reaching reaching_of_warp(const View<Word>& view, const Boundary& boundary) {
    Reaching own{0, 0};
    for_each_of_view(view, [&](std::uint64_t, Word word) {
        const bool is_above = magnitude(word) >= boundary.high;
        own.above += is_above;
        own.ties += !is_above && magnitude(word) >= boundary.low;
    });
    return {sum_of_warp(own.above), sum_of_warp(own.ties)};
}

// Tells the later parts the numbers of the block's part, waits for those of the earlier ones, and returns the
// sums of all before the calling warp's own numbers. All threads of a block must call it.
__device__ inline Reaching reaching_before(const Reaching& own, unsigned part, std::uint64_t* written) {
    HOCKET_SHARED(Reaching[block_warps], of_warp);
    HOCKET_SHARED(Reaching[block_warps], of_parts);
    if (lane() == 0) of_warp[warp()] = own;
    __syncthreads();
    Reaching before{0, 0};
    for (unsigned other = 0; other < warp(); ++other) {
        before.above += of_warp[other].above;
        before.ties += of_warp[other].ties;
    }
    if (threadIdx.x == block_threads - 1)
        store_release(written + part, packed({before.above + own.above, before.ties + own.ties}));
    Reaching earlier{0, 0};
    for (unsigned other = threadIdx.x; other < part; other += block_threads) {
        std::uint64_t word = 0;
        while (word == 0) word = load_acquire(written + other);
        earlier.above += unpacked(word).above;
        earlier.ties += unpacked(word).ties;
    }
    earlier = {sum_of_warp(earlier.above), sum_of_warp(earlier.ties)};
    if (lane() == 0) of_parts[warp()] = earlier;
    __syncthreads();
    for (const Reaching& one : of_parts) {
        before.above += one.above;
        before.ties += one.ties;
    }
    return before;
}

// Writes the selected elements of the warp's view; `before` has the numbers of those in front of it. Returns
// false if one of the lane's is not finite.
template <typename Word, typename Output>
__device__ bool write_selected(const View<Word>& view, const Boundary& boundary, const Output& output,
                               Reaching before) {
    bool all_finite = true;
    for (std::uint64_t first = lane(); first - lane() < view.count; first += loads_in_flight * warp_lanes) {
        Word words[loads_in_flight];
        for (unsigned step = 0; step < loads_in_flight; ++step) {
            const std::uint64_t i = first + step * warp_lanes;
            words[step] = i < view.count ? view.words[i] : Word{0};
        }
        for (unsigned step = 0; step < loads_in_flight; ++step) {
            const std::uint64_t i = first + step * warp_lanes;
            const bool reaches = i < view.count && magnitude(words[step]) >= boundary.low;
            const bool is_above = reaches && magnitude(words[step]) >= boundary.high,
                       is_tie = reaches && !is_above;
            const unsigned above = __ballot_sync(all_lanes, is_above),
                           ties = __ballot_sync(all_lanes, is_tie);
            const std::uint64_t tie = before.ties + lanes_below(ties);
            if (is_above || (is_tie && boundary.takes(tie))) {
                const std::uint64_t at = before.above + lanes_below(above) + boundary.taken_of(tie);
                all_finite = output.write(at, words[step], view.index(i)) && all_finite;
            }
            before.above += bits_of(above);
            before.ties += bits_of(ties);
        }
    }
    return all_finite;
}

// Writes the selected elements of the block's part, the calling warp's being the view. Returns false to some
// of the threads if one is not finite. All threads of a block must call it.
template <typename Word, typename Output>
__device__ bool write_part(const View<Word>& view, const Boundary& boundary, const Output& output,
                           unsigned part, std::uint64_t* written) {
    const Reaching own = reaching_of_warp(view, boundary);
    const Reaching before = reaching_before(own, part, written);
    if (own.above + own.ties == 0) return true;
    return write_selected(view, boundary, output, before);
}

// non_finite may be null.
__device__ inline void write_results(const State& state, std::uint64_t k, std::uint64_t* selected,
                                     std::uint32_t* non_finite) {
    *selected = k;
    if (non_finite != nullptr) *non_finite = __ldcg(&state.non_finite);
}

// Clears infinities and NaNs in the residual that were not selected. Selected ones have already set
// `non_finite`; without a selection (`look`), this kernel sets it.
static __global__ void __launch_bounds__(block_threads)
    drop_non_finite(float* residual, std::uint64_t count, bool look, std::uint32_t* non_finite) {
    if (!look && *non_finite == 0) return;
    bool found = false;
    for_each_of_grid(
        count, [&](std::uint64_t i) { return residual[i]; },
        [&](std::uint64_t i, float sum) {
            if (is_finite(sum)) return;
            residual[i] = 0;
            found = true;
        });
    if (__any_sync(all_lanes, found) && lane() == 0) atomicOr(non_finite, 1u);
}

}  // namespace hocket::kernels::cuda
