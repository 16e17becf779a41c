// Floating-point numbers of 16 bits, as they lie in memory: widened to a float to be calculated with, and
// rounded back to nearest, ties to even.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace hocket {

// The upper half of a float.
struct BFloat16 {
    std::uint16_t bits;

    BFloat16() = default;
    constexpr explicit BFloat16(float value) : bits(narrow(std::bit_cast<std::uint32_t>(value))) {}
    constexpr explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

  private:
    static constexpr std::uint16_t narrow(std::uint32_t value) {
        const bool is_nan = (value & 0x7fffffff) > 0x7f800000;
        if (is_nan) return static_cast<std::uint16_t>(value >> 16 | 0x40);  // quiet: what is kept may be 0
        return static_cast<std::uint16_t>((value + 0x7fff + (value >> 16 & 1)) >> 16);
    }
};

}  // namespace hocket

template <>
struct std::numeric_limits<hocket::BFloat16> {
    static constexpr bool is_specialized = true;
    static constexpr int digits = 8, min_exponent = -125, max_exponent = 128;
};
