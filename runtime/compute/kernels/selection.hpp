// Defines the selection of the largest elements for the processor's kernels and the device's alike: both
// select the same elements, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "runtime/base/types.hpp"

#if defined(__CUDACC__)
#define HOCKET_ON_BOTH __host__ __device__
#else
#define HOCKET_ON_BOTH
#endif

namespace hocket::kernels {

// Returns an element's magnitude: its bits as an unsigned integer, without the sign. Magnitudes have the
// order of the numbers' absolute values; infinity is above all numbers, and every NaN is above infinity.
template <typename Word>
HOCKET_ON_BOTH constexpr Word magnitude(Word bits) {
    constexpr Word without_sign = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);
    return bits & without_sign;
}

// The seed of a random number: the same three numbers give the same one, on every processor and device.
struct Draw {
    std::uint64_t seed = 0, step = 0, shard = 0;
};

// Mixes a number by the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", 2014).
HOCKET_ON_BOTH constexpr std::uint64_t mixed(std::uint64_t number) {
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
    number = (number ^ number >> 27) * 0x94d049bb133111eb;
    return number ^ number >> 31;
}
// Chooses among the elements that tie for the last places: a run of them is selected, in the order of their
// indices. Returns the position at which the run begins, one of 0 .. ties - needed, all equally likely.
// needed <= ties <= 2^32.
HOCKET_ON_BOTH constexpr std::uint64_t first_of_ties(const Draw& draw, std::uint64_t ties,
                                                     std::uint64_t needed) {
    constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio
    std::uint64_t number = mixed(draw.seed + golden);
    number = mixed(number + draw.step + golden);
    number = mixed(number + draw.shard + golden);
    const std::uint64_t choices = ties - needed + 1;
    return (number >> 32) * choices >> 32;
}

// Returns true for the types that elements can be selected from.
constexpr bool can_select(DataType type) {
    return row_of(type).kind == kind::floating && element_size(type) <= 4;
}
constexpr std::size_t most_selectable = std::size_t{1} << 32;  // elements

// Returns how many of this many elements a density from 0 to 1 selects: rounded down, but at least one of any
// if the density is not 0.
constexpr std::size_t selected_of(std::size_t count, double density) {
    if (density == 1) return count;
    const auto k = static_cast<std::size_t>(density * static_cast<double>(count));
    return density > 0 && count > 0 && k == 0 ? 1 : k < count ? k : count;
}

struct TopkOptions {
    // 0: exact. Otherwise the number of thresholds to try, N of the paper's Algorithm 1; the selection may
    // then miss some of the largest elements.
    std::uint32_t thresholds = 0;
    Draw draw = {};
    unsigned threads = 1;  // on the processor, including the caller's
};

// Returns the bits of infinity for a type that can_select, with as many bits as the word: an exponent of all
// ones.
template <typename Word>
constexpr Word infinity_of(DataType type) {
    return with_type(type, []<DataType t>(TypeConstant<t>) -> Word {
        using Stored = typename ElementOf<t>::Stored;
        if constexpr (can_select(t) && sizeof(Stored) == sizeof(Word))
            return static_cast<Word>((Word{1} << (std::numeric_limits<Word>::digits - 1)) -
                                     (Word{1} << (std::numeric_limits<Stored>::digits - 1)));
        else
            throw std::logic_error("this type has no infinity of that size");
    });
}

}  // namespace hocket::kernels
