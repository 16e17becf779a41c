// Runs a formula over elements, block by block, so that the values between its operations stay in the
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
    std::span<const double> scalars;  // of the tensor that has the elements
};

// to[i] = formula, i in 0 .. count - 1, calculated as float32, or as float64 if `to` is float64; rounded once
// to the type of `to`. `to` may be one of the operands, but must not overlap one otherwise. Thread-safe.
void run_formula(const dsl::Formula& formula, const FormulaInputs& inputs, std::size_t count, DataType type,
                 std::byte* to);

// Returns the fold of the formula over the elements, in the order of kernels/chunk_order.hpp; products are
// calculated in float64 if an operand is, otherwise in float32. The sum of no elements is 0, and the largest
// of none is minus infinity. Thread-safe.
double fold_formula(dsl::Fold fold, const dsl::Formula& formula, const FormulaInputs& inputs,
                    std::size_t count);

}  // namespace hocket::compute
