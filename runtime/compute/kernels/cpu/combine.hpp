// The combine and copy kernels in plain C++: what the interpreter runs, and the oracle for generated code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/types.hpp"

namespace hocket::kernels {

// d[i] = ((operands[0][i] op operands[1][i]) op operands[2][i]) ..., i in 0 .. count - 1, for every
// destination d.
//
// At least one operand; `count` elements of `type` each, all pointers aligned to the element. A destination
// may be exactly one of the operands. It must not overlap an operand in part, nor another destination in
// part. Thread-safe.
//
// Values are combined in the type's Worked type (types.hpp), and the result is rounded once to the stored
// type. apply.hpp says what each operator makes of two values. Last, the result is divided by the divisor,
// integers towards 0.
void combine(DataType type, ReduceOp op, std::span<std::byte* const> destinations,
             std::span<const std::byte* const> operands, std::size_t count, std::uint32_t divisor = 1);

// Copies `bytes` of the source to every destination; a destination that is exactly the source is skipped.
// There must be no other overlap. Thread-safe.
void copy(std::span<std::byte* const> destinations, const std::byte* source, std::size_t bytes);

}  // namespace hocket::kernels
