// The combine and copy kernels in plain C++: what the interpreter runs, and the oracle for generated code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/types.hpp"

namespace hocket::kernels {

// d[i] = ((operands[0][i] op operands[1][i]) op operands[2][i]) ..., i in 0 .. count - 1, for every
// destination d.
//
// At least one operand; `count` elements of `type` each, all pointers aligned to the element. A destination
// may be exactly one of the operands. It must not overlap an operand in part, nor another destination in
// part. Thread-safe.
//
// Values are combined in the type's Worked type (types.hpp), and the result is rounded once to the stored
// type. Integer sums and products wrap around. With a the result so far and b the next operand,
//   max is  a if a is NaN, else a if a > b, else b
//   min is  a if a is NaN, else a if a < b, else b
// so if any operand is NaN the result is the first NaN with its bits unchanged, and of two zeros the later
// one is taken. Which NaN a floating-point sum or product of several NaNs gives is not defined.
// Last, the result is divided by the divisor, integers towards 0.
void combine(DataType type, ReduceOp op, std::span<std::byte* const> destinations,
             std::span<const std::byte* const> operands, std::size_t count, std::uint32_t divisor = 1);

// Copies `bytes` of the source to every destination; a destination that is exactly the source is skipped.
// There must be no other overlap. Thread-safe.
void copy(std::span<std::byte* const> destinations, const std::byte* source, std::size_t bytes);

}  // namespace hocket::kernels
