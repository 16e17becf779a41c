// What is generated for which operations.
#pragma once

#include <compare>
#include <cstddef>
#include <string>

#include "runtime/types.hpp"

namespace hocket::jit {

// All that a kernel's code depends on. A copy is a kernel of one operand.
struct KernelShape {
    // Up to this many operands and destinations a kernel has them written out, above it loops over them.
    static constexpr std::size_t most_unrolled = 16;

    static KernelShape of(DataType type, ReduceOp op, std::size_t operands, std::size_t destinations);

    DataType type = DataType::float32;
    ReduceOp op = ReduceOp::sum;                 // of copies: sum
    std::size_t operands = 0, destinations = 0;  // 0 both: any number
    bool streamed = false;                       // see streaming.hpp

    KernelShape streaming() const { return {type, op, operands, destinations, true}; }
    auto operator<=>(const KernelShape&) const = default;
};

// combine3_float32_sum, combine3_to_2_float32_sum, copy_to_2_float32, combine_any_float32_sum; what streams
// ends in _streamed.
std::string name_of(const KernelShape& shape);

}  // namespace hocket::jit
