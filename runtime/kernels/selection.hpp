// What a selection of the largest elements means, for the processor's kernels and the device's alike: both
// select the same elements, bit for bit.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define HOCKET_ON_BOTH __host__ __device__
#else
#define HOCKET_ON_BOTH
#endif

namespace hocket::kernels {

// An element's bits as an unsigned integer; its magnitude is these bits without the sign. Magnitudes are in
// the order of the numbers' absolute values; infinity is above all numbers, and every NaN above infinity.
template <typename Word>
HOCKET_ON_BOTH constexpr Word magnitude(Word bits) {
    constexpr Word without_sign = static_cast<Word>(static_cast<Word>(~Word{0}) >> 1);
    return bits & without_sign;
}

// What makes a random number: the same three numbers give the same one, on every processor and device.
struct Draw {
    std::uint64_t seed = 0, step = 0, shard = 0;
};

// Of the elements that tie for the last places, those are selected that stand one after another, in the order
// of their indices, from the position that this returns: one of 0 .. ties - needed, each as likely as the
// others. needed <= ties <= 2^32. The numbers are mixed by the finalizer of SplitMix64 (Steele, Lea and
// Flood, "Fast splittable pseudorandom number generators", 2014).
HOCKET_ON_BOTH constexpr std::uint64_t mixed(std::uint64_t number) {
    number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
    number = (number ^ number >> 27) * 0x94d049bb133111eb;
    return number ^ number >> 31;
}
HOCKET_ON_BOTH constexpr std::uint64_t first_of_ties(const Draw& draw, std::uint64_t ties,
                                                     std::uint64_t needed) {
    constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;  // 2^64 divided by the golden ratio
    std::uint64_t number = mixed(draw.seed + golden);
    number = mixed(number + draw.step + golden);
    number = mixed(number + draw.shard + golden);
    const std::uint64_t choices = ties - needed + 1;
    return (number >> 32) * choices >> 32;
}

}  // namespace hocket::kernels
