// Error feedback, element by element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/types.hpp"

namespace hocket::kernels {

// to[i] = elements[i] as float32, for 16-bit floating-point types. Thread-safe.
void widen(DataType type, const std::byte* elements, std::size_t count, float* to);

// to[i] = decay * residual[i] + scale * elements[i], i in 0 .. count - 1, each product and the sum rounded to
// float32. `to` may be `residual`. Thread-safe.
void accumulate(DataType type, const std::byte* elements, const float* residual, std::size_t count,
                float decay, float scale, float* to);

// The part of a value that is sent, and the part that is left: sent + left is the value, bit for bit.
struct Split {
    float sent, left;
};
// Splits a value. `sent` is a number of the type: the nearest one if it is in range, otherwise the largest;
// or 0 if the rest would not be a float32 (float16: from about 5e8). Of infinities and NaNs nothing is left.
Split split(float value, DataType sent_as);
// Splits values[0 .. count - 1]: writes the parts to send, as numbers of the type (float32 if the type has
// more than 16 bits), to sent[i], and what is left to left[places[i]]. Thread-safe.
void split_all(const float* values, std::size_t count, DataType sent_as, std::byte* sent,
               const std::uint32_t* places, float* left);

// Returns true if an infinity or a NaN is among the numbers.
bool any_non_finite(const float* numbers, std::size_t count);
// Replaces infinities and NaNs by 0. Returns true if there was one.
bool drop_non_finite(float* numbers, std::size_t count);

}  // namespace hocket::kernels
