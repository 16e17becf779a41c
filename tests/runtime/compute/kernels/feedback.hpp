// The invariants of error feedback, checked element by element.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/runtime/compute/jit/reference.hpp"
#include "tests/runtime/compute/kernels/selected.hpp"

namespace hocket::test {

// An element as a number, by its fields.
inline float number_at(DataType type, const std::byte* elements, std::size_t i) {
    std::uint16_t half;
    float whole;
    if (type == DataType::float32) {
        std::memcpy(&whole, elements + 4 * i, sizeof whole);
        return whole;
    }
    std::memcpy(&half, elements + 2 * i, sizeof half);
    return static_cast<float>(type == DataType::float16 ? value_of_half<DataType::float16>(half)
                                                        : value_of_half<DataType::bfloat16>(half));
}

// sums = decay * residual + scale * elements, as bits.
inline void accumulate_plainly(DataType type, const std::byte* elements,
                               const std::vector<std::uint32_t>& residual, float decay, float scale,
                               std::vector<std::uint32_t>& sums) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const volatile float kept = decay * std::bit_cast<float>(residual[i]);
        const volatile float added = scale * number_at(type, elements, i);
        sums[i] = std::bit_cast<std::uint32_t>(kept + added);
    }
}

inline bool any_non_finite(const std::vector<std::uint32_t>& sums) {
    return std::any_of(sums.begin(), sums.end(),
                       [](std::uint32_t sum) { return !std::isfinite(std::bit_cast<float>(sum)); });
}

// Returns whether two floats have the same bits, or are both NaN.
inline bool same_float(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) ||
           std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// Returns whether values and residual together are the sums: value + residual where an element was selected,
// the residual alone elsewhere. Infinities and NaNs are dropped.
inline bool keeps_all(DataType sent_as, const std::byte* values, const Sparse<std::uint32_t>& selected,
                      const std::vector<std::uint32_t>& sums, const std::vector<std::uint32_t>& residual) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
        const float sum = std::bit_cast<float>(sums[i]), left = std::bit_cast<float>(residual[i]);
        if (at == selected.indices.size() || selected.indices[at] != i) {
            if (std::isfinite(sum) ? !same_float(sum, left) : left != 0) return false;
            continue;
        }
        const volatile float together = number_at(sent_as, values, at++) + left;
        if (!same_float(sum, together)) return false;
    }
    return true;
}

}  // namespace hocket::test
