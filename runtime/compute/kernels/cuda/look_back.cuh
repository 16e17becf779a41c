// Computes the output positions of an input's tiles in one pass: decoupled look-back (Merrill and Garland,
// "Single-pass parallel prefix scan with decoupled look-back", 2016).
#pragma once

#include "runtime/compute/kernels/cuda/device.cuh"

namespace hocket::kernels::cuda {

// The two highest bits of a tile's status word say what the tile has published, and the other bits hold a
// count. Words are initially 0.
constexpr unsigned count_bits = 62;
constexpr std::uint64_t own_count = 1, count_up_to_it = 2, counts_only = (std::uint64_t{1} << count_bits) - 1;

// Publishes the tile's count, and returns the sum of the counts of all tiles before it. A whole warp must
// call it.
__device__ inline std::uint64_t look_back(std::uint64_t* status, std::uint64_t tile, std::uint64_t count) {
    if (lane() == 0 && tile > 0) store_release(status + tile, own_count << count_bits | count);
    std::uint64_t before = 0;
    for (std::uint64_t end = tile; end > 0; end = end > warp_lanes ? end - warp_lanes : 0) {
        const bool inside = lane() < end;
        std::uint64_t word = 0;
        do {
            if (inside && word == 0) word = load_acquire(status + (end - 1 - lane()));
        } while (__any_sync(all_lanes, inside && word == 0));
        const unsigned sums = __ballot_sync(all_lanes, word >> count_bits == count_up_to_it);
        const unsigned last = sums != 0 ? static_cast<unsigned>(__ffs(sums)) - 1 : warp_lanes - 1;
        before += sum_of_warp(lane() <= last ? word & counts_only : std::uint64_t{0});
        if (sums != 0) break;
    }
    if (lane() == 0) store_release(status + tile, count_up_to_it << count_bits | (before + count));
    return before;
}

// Turns each warp's counts, `kinds` numbers for its part of the tile, into the sums of all counts before: of
// earlier tiles, and of lower warps. All threads of a block must call it, between two calls of next_ticket.
// status: for each kind as many words as there are tiles, one kind after another.
template <unsigned kinds>
__device__ void sum_before(std::uint64_t* status, std::uint64_t tiles, std::uint64_t tile,
                           std::uint64_t (&counts)[kinds]) {
    static_assert(kinds <= block_warps);
    HOCKET_SHARED(std::uint64_t[kinds][block_warps], of_warp);
    HOCKET_SHARED(std::uint64_t[kinds], before);
    if (lane() == 0)
        for (unsigned kind = 0; kind < kinds; ++kind) of_warp[kind][warp()] = counts[kind];
    __syncthreads();
    if (warp() < kinds) {
        const unsigned kind = warp();
        const std::uint64_t own =
            sum_of_warp(lane() < block_warps ? of_warp[kind][lane()] : std::uint64_t{0});
        const std::uint64_t sum = look_back(status + kind * tiles, tile, own);
        if (lane() == 0) before[kind] = sum;
    }
    __syncthreads();
    for (unsigned kind = 0; kind < kinds; ++kind) {
        counts[kind] = before[kind];
        for (unsigned other = 0; other < warp(); ++other) counts[kind] += of_warp[kind][other];
    }
}

}  // namespace hocket::kernels::cuda
