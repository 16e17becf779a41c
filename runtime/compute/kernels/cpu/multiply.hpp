// Multiplies a rank's own input by its factor before anything is combined (types.hpp: at_start).
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "runtime/base/types.hpp"

namespace hocket::kernels {

// to[i] = from[i] * factor, i in 0 .. count - 1.
//
// Both have `count` elements of `type`, aligned; `to` may be `from`, but they must not overlap otherwise. The
// factor is converted to the type's Worked type (types.hpp), in which the product is calculated; the product
// is rounded once to the stored type. Products of integers wrap around. `to` is written as by hand_over().
// Thread-safe.
void multiply(DataType type, std::byte* to, const std::byte* from, std::size_t count, double factor);

// Returns why the factor cannot be a number of the type's Worked type; nullopt if it can. Floating-point
// types accept every factor within their range, infinities and NaN. Integers accept whole numbers from the
// least to the largest of the type.
std::optional<std::string> why_no_factor(DataType type, double factor);

}  // namespace hocket::kernels
