// The shapes of code for formulas over elements in memory, and the code's type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dsl/graph/formula.hpp"
#include "runtime/base/types.hpp"

namespace hocket::jit {

// Everything on which a formula's code depends.
struct FormulaShape {
    std::vector<dsl::Formula::Item> items;
    std::vector<DataType> elements;  // the types of the operands, by index: floating-point types
    DataType target;                 // the result's type, whose type for calculations is used throughout

    bool operator<(const FormulaShape& other) const;
};

// to[i] = formula, i in 0 .. count - 1. `to` may be one of the elements' operands, but must not overlap one
// otherwise. parameters, scalars: by index.
using FormulaCode = void (*)(std::byte* to, const std::byte* const* elements, const double* parameters,
                             const double* scalars, std::uint64_t count);

}  // namespace hocket::jit
