// Defines the result of each operator on two values, once for all types that the operator exists for.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/base/types.hpp"

namespace hocket::kernels {

// Hocket does not define which NaN results from a floating-point sum or product of several NaNs. Integers
// wrap around: they are calculated as unsigned, where C++ defines overflow, and at least as wide as
// `unsigned`, so that no operand is promoted to a signed type.
template <typename T>
using Wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

template <typename T>
T sum(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return static_cast<T>(Wrapping<T>(a) + Wrapping<T>(b));
    else
        return a + b;
}

template <typename T>
T product(T a, T b) {
    if constexpr (std::is_integral_v<T>)
        return static_cast<T>(Wrapping<T>(a) * Wrapping<T>(b));
    else
        return a * b;
}

// a is the result so far, b the next operand. a != a holds only for NaN, so if any operand is NaN the result
// is the first NaN with its bits unchanged; of two zeros the later one is taken.
template <typename T>
T max(T a, T b) {
    return a != a ? a : a > b ? a : b;
}

template <typename T>
T min(T a, T b) {
    return a != a ? a : a < b ? a : b;
}

template <typename T>
T band(T a, T b) {
    return static_cast<T>(a & b);
}

template <typename T>
T bor(T a, T b) {
    return static_cast<T>(a | b);
}

template <typename T>
T bxor(T a, T b) {
    return static_cast<T>(a ^ b);
}

// Divides a complete result; integers are rounded towards 0.
template <typename T>
T divided(T value, std::uint32_t divisor) {
    if constexpr (std::is_integral_v<T>) {
        // The divisor may be too large for the type.
        using Wide = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
        return static_cast<T>(static_cast<Wide>(value) / static_cast<Wide>(divisor));
    } else {
        return value / static_cast<T>(divisor);
    }
}

// T: the Worked type of a row for which the operator exists.
template <ReduceOp op, typename T>
T apply(T a, T b) {
#define HOCKET_APPLY(name, text, constant, combination, ...) \
    if constexpr (op == ReduceOp::name) return combination(a, b);
    HOCKET_REDUCE_OPS(HOCKET_APPLY)
#undef HOCKET_APPLY
}

}  // namespace hocket::kernels
