// 16-bit floating-point numbers as stored in memory. They are widened to a float for calculations, and
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
        if (is_nan) return static_cast<std::uint16_t>(value >> 16 | 0x40);  // quiet: the bits kept may be 0
        return static_cast<std::uint16_t>((value + 0x7fff + (value >> 16 & 1)) >> 16);
    }
};

// IEEE 754's binary16.
struct Float16 {
    std::uint16_t bits;

    Float16() = default;
    constexpr explicit Float16(float value) : bits(narrow(std::bit_cast<std::uint32_t>(value))) {}
    constexpr explicit operator float() const { return widen(bits); }

  private:
    static constexpr std::uint32_t infinity = 0x7f800000, bias = (127 - 15) << 23;  // of a float

    static constexpr float widen(std::uint32_t bits) {
        const std::uint32_t sign = (bits & 0x8000) << 16, size = (bits & 0x7fff) << 13;
        if (size == 0) return std::bit_cast<float>(sign);
        if (size < 1u << 23) {  // denormal: a number of units of 2^-24
            const float value = static_cast<float>(size >> 13) * 0x1p-24f;
            return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
        }
        if (size < 0x1fu << 23) return std::bit_cast<float>(sign | (size + bias));
        const bool is_nan = size > 0x1fu << 23;  // becomes quiet, as with the machines' instruction
        return std::bit_cast<float>(sign | infinity | size | (is_nan ? 0x400000 : 0));
    }

    static constexpr std::uint16_t narrow(std::uint32_t value) {
        const std::uint32_t sign = value >> 16 & 0x8000, size = value & 0x7fffffff;
        return static_cast<std::uint16_t>(sign | narrow_size(size));
    }

    static constexpr std::uint32_t narrow_size(std::uint32_t size) {
        constexpr std::uint32_t too_large = (15 + 1 + 127) << 23, least_normal = (127 - 14) << 23;
        if (size > infinity) return 0x7e00 | (size >> 13 & 0x3ff);  // NaN, quiet
        if (size >= too_large) return 0x7c00;
        if (size >= least_normal) return (size - bias + 0xfff + (size >> 13 & 1)) >> 13;
        // Denormal: the addition rounds to units of 2^-24, which are the last bits of a float around a half.
        const float around_half = std::bit_cast<float>(size) + 0.5f;
        return std::bit_cast<std::uint32_t>(around_half) - std::bit_cast<std::uint32_t>(0.5f);
    }
};

}  // namespace hocket

template <>
struct std::numeric_limits<hocket::BFloat16> {
    static constexpr bool is_specialized = true;
    static constexpr int digits = 8, min_exponent = -125, max_exponent = 128;
};

template <>
struct std::numeric_limits<hocket::Float16> {
    static constexpr bool is_specialized = true;
    static constexpr int digits = 11, min_exponent = -13, max_exponent = 16;
};
