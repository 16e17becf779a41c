// Takes out the few elements that are large enough, in a single read of all.
#pragma once

#include "runtime/compute/kernels/cuda/counts.cuh"
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

constexpr unsigned rows_of_group = 4;  // as many as have a bit for each element of a lane in a word

// Returns an element of a lane's vector, which is loaded as 32-bit parts.
template <typename Word>
__device__ Word word_of(const Quad& vector, unsigned e) {
    constexpr unsigned of_part = 4 / sizeof(Word);
    return static_cast<Word>(vector.parts[e / of_part] >> e % of_part * 16);
}

// Compares the magnitudes of a part's elements with the floor, all at once: in the result an element's sign
// bit says that it reaches the floor. With the sign bit set, subtracting the floor never borrows from the
// neighbour, and clears the sign bit if the floor is larger.
template <typename Word>
__device__ std::uint32_t compared(std::uint32_t part, Word floor) {
    constexpr std::uint32_t ones = sizeof(Word) == 4 ? 1 : 0x10001, signs = ones << (8 * sizeof(Word) - 1);
    return (part | signs) - floor * ones;
}

// Returns a bit for each of a lane's elements in a group of rows that says that it reaches the floor. The
// last element has the lowest bit.
template <typename Word>
__device__ std::uint32_t hits_of(const Quad* rows, Word floor) {
    std::uint32_t hits = 0;
    for (unsigned row = 0; row < rows_of_group; ++row)
        for (const std::uint32_t part : rows[row].parts) {
            const std::uint32_t signs = compared(part, floor);
            hits = sizeof(Word) == 4 ? hits << 1 | signs >> 31 : hits << 2 | (signs >> 14 & 2) | signs >> 31;
        }
    return hits;
}

// Returns the row's vector of a lane, element by element, as far as the elements exist; others are 0.
template <typename Elements>
__device__ Quad load_existing(const Elements& elements, std::int64_t first, std::uint64_t count) {
    using Word = typename Elements::Word;
    Quad vector = {};
    for (unsigned e = 0; e < of_vector<Word>; ++e) {
        const auto i = static_cast<std::uint64_t>(first + e);  // far above `count` if it is below 0
        if (i < count)
            vector.parts[e * sizeof(Word) / 4] |= std::uint32_t{elements.load(i)} << e * sizeof(Word) % 4 * 8;
    }
    return vector;
}
template <typename Elements>
__device__ void keep_existing(const Elements& elements, std::int64_t first, std::uint64_t count,
                              const Quad& vector) {
    using Word = typename Elements::Word;
    for (unsigned e = 0; e < of_vector<Word>; ++e) {
        const auto i = static_cast<std::uint64_t>(first + e);
        if (i < count) elements.keep(i, word_of<Word>(vector, e));
    }
}

// Loads rows of vectors, `first` being the lane's first element, and keeps them.
template <typename Elements, unsigned n>
__device__ void load_rows(const Elements& elements, std::int64_t first, std::uint64_t count,
                          Quad (&rows)[n]) {
    constexpr unsigned distance = of_row<typename Elements::Word>;
    const std::int64_t begin = first - lane() * of_vector<typename Elements::Word>;
    if (elements.has_vectors && begin >= 0 && static_cast<std::uint64_t>(begin) + n * distance <= count) {
        const auto i = static_cast<std::uint64_t>(first);
        for (unsigned row = 0; row < n; ++row) rows[row] = elements.load_vector(i + row * distance);
        for (unsigned row = 0; row < n; ++row) elements.keep_vector(i + row * distance, rows[row]);
    } else {
        for (unsigned row = 0; row < n; ++row)
            rows[row] = load_existing(elements, first + row * distance, count);
        if constexpr (Elements::calculates)
            for (unsigned row = 0; row < n; ++row)
                keep_existing(elements, first + row * distance, count, rows[row]);
    }
}

// A warp's slots, which get the elements that reach the floor in the order of their indices.
template <typename Word>
struct Slots {
    const Word* all;
    Word* words;
    std::uint32_t* indices;
    unsigned slots, taken;  // taken: all that reach the floor, also those without a slot
    Word floor;
    std::uint32_t* counts;  // the block's

    // Takes out of a group of rows. first: the index of the lane's first element. All lanes must call it.
    __device__ void take(std::uint32_t hits, std::int64_t first) {
        constexpr unsigned n = of_vector<Word>;
        for (std::uint32_t left = __reduce_or_sync(all_lanes, hits); left != 0;) {
            const unsigned below = highest_bit(left) / n;  // rows of the group that follow the one with a hit
            left &= (1u << below * n) - 1;
            const std::uint32_t own = hits >> below * n & ((1u << n) - 1);
            unsigned at = taken;
            for (unsigned bit = 0; 1u << bit <= n; ++bit) {  // adds up the lanes' numbers, bit by bit
                const unsigned with_bit = __ballot_sync(all_lanes, (bits_of(own) >> bit & 1) != 0);
                at += lanes_below(with_bit) << bit;
                taken += bits_of(with_bit) << bit;
            }
            const std::int64_t last = first + (rows_of_group - 1 - below) * of_row<Word> + (n - 1);
            for (std::uint32_t rest = own; rest != 0; rest &= (1u << highest_bit(rest)) - 1)
                put(at++, last - highest_bit(rest));
        }
    }

    // Loads the element once more, which a cache still has, so that registers need not hold all until here.
    __device__ void put(unsigned at, std::int64_t index) const {
        const Word word = all[index];
        atomicAdd(counts + bin_above<Word>(floor, word), 1u);
        if (at >= slots) return;
        words[at] = word;
        indices[at] = static_cast<std::uint32_t>(index);
    }
};

// Takes the elements that reach the floor out of the warp's range, and returns their number.
template <typename Elements, typename Word>
__device__ unsigned take_out_of_range(const Elements& elements, const Ranges& ranges, unsigned range,
                                      Slots<Word> slots) {
    constexpr unsigned rows_at_once = Elements::rows_in_flight, groups = rows_at_once / rows_of_group;
    constexpr std::uint64_t step = rows_at_once * of_row<Word>;
    std::int64_t first = ranges.begin(range) + lane() * of_vector<Word>;
    for (std::uint64_t done = 0; done < ranges.length; done += step, first += step) {
        Quad rows[rows_at_once];
        load_rows(elements, first, ranges.count, rows);
        std::uint32_t hits[groups];
        for (unsigned group = 0; group < groups; ++group)
            hits[group] = hits_of(rows + group * rows_of_group, slots.floor);
        for (unsigned group = 0; group < groups; ++group)
            slots.take(hits[group], first + group * rows_of_group * of_row<Word>);
    }
    return slots.taken;
}

// Each warp takes out of one range. The last block checks that there are enough.
template <typename Elements>
__global__ void __launch_bounds__(block_threads, blocks_of_multiprocessor)
    take_out(Elements elements, Candidates<typename Elements::Word> to, std::uint64_t k, State* state) {
    using Word = typename Elements::Word;
    HOCKET_SHARED(std::uint32_t[bins], counts);
    const auto floor = static_cast<Word>(state->floor);
    if (state->skip) return;
    if (floor == 0) {
        if constexpr (Elements::calculates) calculate_all(elements, to.ranges.count);
        return;
    }
    clear_counts(counts);
    const unsigned range = blockIdx.x * block_warps + warp();
    if (range < to.ranges.number) {
        const std::uint64_t slot = std::uint64_t{range} * to.ranges.slots;
        const unsigned taken = take_out_of_range(
            elements, to.ranges, range,
            Slots<Word>{to.all, to.words + slot, to.indices + slot, to.ranges.slots, 0, floor, counts});
        if (lane() == 0) to.hits[range] = taken;
    }
    add_counts(counts, state->taken);
    if (!is_last_block(&state->taken_blocks)) return;
    const Found found = find_from_top(state->taken, bins, k);
    if (threadIdx.x != 0 || found.above + found.at < k) return;
    state->few = 1;
    // The last bin also has what is far above the floor. If the boundary is there, the levels begin at the
    // first one.
    if (found.bin == bins - 1) return;
    state->above = found.above;
    state->at = found.at;
    state->low = floor + (found.bin << shift_of<Word>(1));
    state->level = 2;
}

}  // namespace hocket::kernels::cuda
