// The combine and copy kernels in plain C++. The interpreter runs them, and they are the oracle for generated
// code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/types.hpp"

namespace hocket::kernels {

// d[i] = ((operands[0][i] op operands[1][i]) op operands[2][i]) ..., i in 0 .. count - 1, for every
// destination d.
//
// There is at least one operand; each has `count` elements of `type`, and all pointers are aligned to the
// element. A destination may be exactly one of the operands. It must not partly overlap an operand or another
// destination. Thread-safe.
//
// Values are combined in the type's Worked type (types.hpp) by the operators of apply.hpp, and the result is
// rounded once to the stored type. Last, the result is divided by the divisor; integers are rounded towards
// 0.
void combine(DataType type, ReduceOp op, std::span<std::byte* const> destinations,
             std::span<const std::byte* const> operands, std::size_t count, std::uint32_t divisor = 1);

// Copies `bytes` of the source to every destination; skips a destination that is exactly the source. There
// must be no other overlap. Thread-safe.
void copy(std::span<std::byte* const> destinations, const std::byte* source, std::size_t bytes);

}  // namespace hocket::kernels
