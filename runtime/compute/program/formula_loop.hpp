// Runs a formula over elements, block by block, so that what is between two of its operations stays in the
// processor's cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "dsl/graph/formula.hpp"
#include "runtime/base/types.hpp"

namespace hocket::compute {

struct FormulaOperand {
    const std::byte* elements;
    DataType type;
};

struct FormulaInputs {
    std::span<const FormulaOperand> elements;  // by index
    std::span<const double> parameters;
    std::span<const double> scalars;  // of the tensor that the elements are of
};

// to[i] = formula, i in 0 .. count - 1, calculated as float32, or as float64 if `to` is; rounded once to its
// type. `to` may be one of the operands, but not overlap one otherwise. Thread-safe.
void run_formula(const dsl::Formula& formula, const FormulaInputs& inputs, std::size_t count, DataType type,
                 std::byte* to);

// The sum of the formula over the elements: in the order of kernels/chunk_order.hpp, where products are
// calculated in float64 if an operand is, else in float32. Thread-safe.
double sum_formula(const dsl::Formula& formula, const FormulaInputs& inputs, std::size_t count);

}  // namespace hocket::compute
