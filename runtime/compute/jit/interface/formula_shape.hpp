// Which code is generated for which formulas over elements in memory, and what it is like.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dsl/graph/formula.hpp"
#include "runtime/base/types.hpp"

namespace hocket::jit {

// All that its code depends on.
struct FormulaShape {
    std::vector<dsl::Formula::Item> items;
    std::vector<DataType> elements;  // the types of its operands, by index; floating-point types
    DataType target;                 // of the result; calculations are in its type for calculations

    bool operator<(const FormulaShape& other) const;
};

// to[i] = formula, i in 0 .. count - 1. `to` may be one of the elements' operands, but not overlap one
// otherwise. parameters, scalars: by index.
using FormulaCode = void (*)(std::byte* to, const std::byte* const* elements, const double* parameters,
                             const double* scalars, std::uint64_t count);

}  // namespace hocket::jit
