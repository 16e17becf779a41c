// Takes out the few elements that are large enough, in a single read of all.
#pragma once

#include "runtime/compute/kernels/cuda/look_back.cuh"
#include "runtime/compute/kernels/cuda/topk_state.cuh"

namespace hocket::kernels::cuda {

// Looks for an infinity or a NaN among the sums; if there is one, the other kernels do nothing.
template <typename Elements>
__global__ void __launch_bounds__(block_threads)
    look_for_non_finite(Elements elements, std::uint64_t count, State* state, std::uint32_t* non_finite) {
    bool found = false;
    for_each_of_grid(
        count, [&](std::uint64_t i) { return elements.load(i); },
        [&](std::uint64_t, std::uint32_t word) { found |= !is_finite(std::bit_cast<float>(word)); });
    if (!__any_sync(all_lanes, found) || lane() != 0) return;
    atomicOr(&state->skip, 1u);
    atomicOr(non_finite, 1u);
}

// Calculates all sums without taking any out.
template <typename Elements>
__device__ void calculate_all(const Elements& elements, std::uint64_t count) {
    for_each_of_grid(
        count, [&](std::uint64_t i) { return elements.load(i); },
        [&](std::uint64_t i, std::uint32_t word) { elements.keep(i, word); });
}

template <typename Elements>
__global__ void __launch_bounds__(block_threads)
    calculate_sums(Elements elements, std::uint64_t count, const State* state) {
    if (!state->skip) calculate_all(elements, count);
}

// Writes the words that are taken out to `to`. again: a second attempt, if the first one failed. If there is
// not enough room, elements are only counted. status: one word per tile, which must be 0.
template <typename Elements>
__global__ void __launch_bounds__(block_threads)
    take_out(Elements elements, Candidates<typename Elements::Word> to, std::uint64_t k, bool again,
             std::uint64_t* status, State* state) {
    using Word = typename Elements::Word;
    const auto floor = static_cast<Word>(again ? state->exact_floor : state->floor);
    if (state->skip) return;
    if (floor == 0) {
        if constexpr (Elements::calculates) calculate_all(elements, to.count);
        return;
    }
    Counter* const tickets = again ? &state->take_out_again_tickets : &state->take_out_tickets;
    const std::uint64_t tiles = (to.count + take_out_tile - 1) / take_out_tile;
    for (std::uint64_t tile; (tile = next_ticket(tickets)) < tiles;) {
        const std::uint64_t first = tile * take_out_tile + warp() * (take_out_steps * warp_lanes) + lane();
        Word words[take_out_steps];
        unsigned hits[take_out_steps];  // masks of the warp's lanes
        for (unsigned step = 0; step < take_out_steps; ++step) {
            const std::uint64_t i = first + step * warp_lanes;
            words[step] = i < to.count ? elements.load(i) : Word{0};
        }
        for (unsigned step = 0; step < take_out_steps; ++step) {
            const std::uint64_t i = first + step * warp_lanes;
            if (i < to.count) elements.keep(i, words[step]);
        }
        std::uint64_t at[1] = {0};
        for (unsigned step = 0; step < take_out_steps; ++step) {
            hits[step] = __ballot_sync(all_lanes, magnitude(words[step]) >= floor);
            at[0] += bits_of(hits[step]);
        }
        const std::uint64_t own = at[0];
        sum_before(status, tiles, tile, at);
        if (tile == tiles - 1 && threadIdx.x == block_threads - 1) {
            state->found = at[0] + own;
            state->few = state->found >= k && state->found <= to.room;
        }
        for (unsigned step = 0; step < take_out_steps; ++step) {
            const std::uint64_t position = at[0] + lanes_below(hits[step]);
            if ((hits[step] >> lane() & 1) != 0 && position < to.room) {
                to.words[position] = words[step];
                to.indices[position] = static_cast<std::uint32_t>(first + step * warp_lanes);
            }
            at[0] += bits_of(hits[step]);
        }
    }
}

}  // namespace hocket::kernels::cuda
