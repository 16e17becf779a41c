// The shapes of code for combines and copies, and the code's type.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dsl/graph/formula.hpp"
#include "runtime/base/types.hpp"

namespace hocket::jit {

// Everything on which a kernel's code depends. A copy is a kernel with one operand; it moves bits of any
// type.
struct KernelShape {
    // Up to this many operands and destinations are unrolled; the kernel loops over more.
    static constexpr std::size_t most_unrolled = 16;

    // A divisor that each call passes as the number of operands. Precompiled kernels of floats have it.
    static constexpr std::uint32_t divisor_by_call = 0;

    // divisor: the result is divided by it at the end. Not for copies.
    // defined: if not empty, the formula of elements 0 and 1 that combines, in place of `op`. Not for copies.
    // epilogue: the formula that is applied to the result after it is rounded to the type. Not for copies.
    static KernelShape of(DataType type, ReduceOp op, std::size_t operands, std::size_t destinations,
                          std::uint32_t divisor = 1, std::vector<dsl::Formula::Item> epilogue = {},
                          std::vector<dsl::Formula::Item> defined = {});
    // The product of each element and the rank's factor, as kernels/cpu/multiply.hpp has it. Only for device
    // plans; on the host multiply() does it.
    static KernelShape product_of(DataType type);

    DataType type = all_types[0];  // copies: the first type of the same size
    // The first operator with the same combination. Copies, and shapes with `defined`, have the first of all.
    ReduceOp op = all_ops[0];
    std::size_t operands = 1;      // 1: a copy. 0: any number
    std::size_t destinations = 1;  // 0: any number
    std::uint32_t divisor = 1;
    bool streamed = false;  // see streaming.hpp
    std::vector<dsl::Formula::Item> epilogue = {};
    std::vector<dsl::Formula::Item> defined = {};
    bool multiplies = false;  // the one operand is multiplied

    bool is_copy() const { return operands == 1 && !multiplies; }
    bool is_unrolled() const { return destinations != 0; }
    KernelShape streaming() const {
        return {type, op, operands, destinations, divisor, true, epilogue, defined};
    }
    auto operator<=>(const KernelShape&) const = default;
};

// Returns combine3_float32_sum, combine3_to_2_float32_sum, combine_any_float32_sum,
// combine3_float32_sum_by_8, .._by_any; or copy_int32, copy_to_2_int32, copy_to_any_int32, named after the
// bits that are moved. Names of streaming kernels end in _streamed.
std::string name_of(const KernelShape& shape);

// areas: the virtual bases. area_ids: the destinations', then the operands'. begin and bytes: the range
// within the areas. All arguments fit into registers. A kernel for fixed numbers of operands and destinations
// ignores the last two, except for a divisor_by_call.
using Code = void (*)(std::byte* const* areas, const std::uint32_t* area_ids, std::uint64_t begin,
                      std::uint64_t bytes, std::uint64_t operands, std::uint64_t destinations);

// True if there are streaming kernels: on machines where streaming was measured, and whose fence is known.
#ifdef __x86_64__
inline constexpr bool machine_streams = true;
#else
inline constexpr bool machine_streams = false;
#endif

// Streaming kernels work on multiples of this: whole blocks of any kernel.
inline constexpr std::uint64_t streamed_unit = 4096;

}  // namespace hocket::jit
