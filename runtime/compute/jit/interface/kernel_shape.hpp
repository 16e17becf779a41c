// Which code is generated for which operations, and what it is like.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dsl/graph/formula.hpp"
#include "runtime/base/types.hpp"

namespace hocket::jit {

// All that a kernel's code depends on. A copy is a kernel with one operand; it moves bits, of any type.
struct KernelShape {
    // Up to this many operands and destinations are unrolled; a kernel loops over more.
    static constexpr std::size_t most_unrolled = 16;

    // A divisor that is given in each call, as the number of operands. Precompiled kernels of floats have it.
    static constexpr std::uint32_t divisor_by_call = 0;

    // divisor: the result is divided by it at the end. Not for copies.
    // defined: if not empty, the formula that combines, of the elements 0 and 1, in place of `op`; not for
    // copies.
    // epilogue: the formula that the result, once it is rounded to the type, goes through; not for copies.
    static KernelShape of(DataType type, ReduceOp op, std::size_t operands, std::size_t destinations,
                          std::uint32_t divisor = 1, std::vector<dsl::Formula::Item> epilogue = {},
                          std::vector<dsl::Formula::Item> defined = {});

    DataType type = all_types[0];  // copies: the first type of the same size
    ReduceOp op =
        all_ops[0];  // the first that combines so; copies, and where `defined` combines: the first of all
    std::size_t operands = 1;      // 1: a copy. 0: any number
    std::size_t destinations = 1;  // 0: any number
    std::uint32_t divisor = 1;
    bool streamed = false;  // see streaming.hpp
    std::vector<dsl::Formula::Item> epilogue = {};
    std::vector<dsl::Formula::Item> defined = {};

    bool is_copy() const { return operands == 1; }
    bool is_unrolled() const { return destinations != 0; }
    KernelShape streaming() const {
        return {type, op, operands, destinations, divisor, true, epilogue, defined};
    }
    auto operator<=>(const KernelShape&) const = default;
};

// combine3_float32_sum, combine3_to_2_float32_sum, combine_any_float32_sum, combine3_float32_sum_by_8,
// .._by_any; copy_int32, copy_to_2_int32, copy_to_any_int32, named after the bits that are moved. The names
// of kernels that stream end in _streamed.
std::string name_of(const KernelShape& shape);

// areas are the virtual bases. area_ids are those of the destinations, then those of the operands. begin and
// bytes say where in the areas. All arguments fit into registers. A kernel for certain numbers of operands
// and destinations ignores the last two, but for a divisor_by_call.
using Code = void (*)(std::byte* const* areas, const std::uint32_t* area_ids, std::uint64_t begin,
                      std::uint64_t bytes, std::uint64_t operands, std::uint64_t destinations);

// Whether there are kernels that stream: where streaming was measured, and we know the fence.
#ifdef __x86_64__
inline constexpr bool machine_streams = true;
#else
inline constexpr bool machine_streams = false;
#endif

// Kernels that stream take multiples of this: whole blocks of any kernel.
inline constexpr std::uint64_t streamed_unit = 4096;

}  // namespace hocket::jit
