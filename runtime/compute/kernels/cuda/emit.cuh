// Writes the selected elements, in ascending order of their indices.
#pragma once

#include "runtime/compute/kernels/cuda/kernels.hpp"
#include "runtime/compute/kernels/cuda/look_back.cuh"
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

    __device__ Boundary(const State& state, std::uint64_t k, const Draw& draw)
        : low(state.low),
          high(state.boundary_known ? state.high : low + 1),
          needed(k - state.above),
          from(first_of_ties(draw, state.at, needed)) {}

    __device__ bool takes(std::uint64_t tie) const { return tie >= from && tie - from < needed; }
    // Returns how many of the first `ties` are selected.
    __device__ std::uint64_t taken_of(std::uint64_t ties) const {
        const std::uint64_t behind = ties > from ? ties - from : 0;
        return behind < needed ? behind : needed;
    }
};

// status: two words per tile, which must be 0.
template <typename Word, typename Output>
__global__ void __launch_bounds__(block_threads)
    emit(Candidates<Word> candidates, std::uint64_t k, Draw draw, Output output, std::uint64_t* status,
         State* state, std::uint64_t* selected, std::uint32_t* non_finite) {
    if (state->skip) return;
    const View<Word> view = view_of(candidates, *state);
    const Boundary boundary(*state, k, draw);
    const std::uint64_t tiles = (view.count + emit_tile - 1) / emit_tile;
    bool all_finite = true;
    if (blockIdx.x == 0 && threadIdx.x == 0) *selected = k;
    for (std::uint64_t tile; (tile = next_ticket(&state->emit_tickets)) < tiles;) {
        const std::uint64_t first = tile * emit_tile + warp() * (emit_steps * warp_lanes) + lane();
        Word words[emit_steps];
        unsigned above[emit_steps], ties[emit_steps];  // masks of lanes
        std::uint64_t before[2] = {0, 0};
        for (unsigned step = 0; step < emit_steps; ++step) {
            const std::uint64_t i = first + step * warp_lanes;
            words[step] = i < view.count ? view.words[i] : Word{0};
        }
        for (unsigned step = 0; step < emit_steps; ++step) {
            const std::uint64_t i = first + step * warp_lanes;
            const bool reaches = i < view.count && magnitude(words[step]) >= boundary.low;
            const bool is_above = reaches && magnitude(words[step]) >= boundary.high;
            above[step] = __ballot_sync(all_lanes, is_above);
            ties[step] = __ballot_sync(all_lanes, reaches && !is_above);
            before[0] += bits_of(above[step]);
            before[1] += bits_of(ties[step]);
        }
        sum_before(status, tiles, tile, before);
        for (unsigned step = 0; step < emit_steps; ++step) {
            const std::uint64_t tie = before[1] + lanes_below(ties[step]);
            const bool is_tie = (ties[step] >> lane() & 1) != 0;
            if ((above[step] >> lane() & 1) != 0 || (is_tie && boundary.takes(tie))) {
                const std::uint64_t i = first + step * warp_lanes;
                const std::uint32_t index = view.indices ? view.indices[i] : static_cast<std::uint32_t>(i);
                const std::uint64_t at = before[0] + lanes_below(above[step]) + boundary.taken_of(tie);
                all_finite = output.write(at, words[step], index) && all_finite;
            }
            before[0] += bits_of(above[step]);
            before[1] += bits_of(ties[step]);
        }
    }
    if (__any_sync(all_lanes, !all_finite) && lane() == 0) atomicOr(non_finite, 1u);
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
