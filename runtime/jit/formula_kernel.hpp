// Formulas over elements in memory, as machine code. Each is compiled once in the process and kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dsl/graph/formula.hpp"
#include "runtime/types.hpp"

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

// Thread-safe; throws hocket::Error (internal) with LLVM's words.
FormulaCode find_formula(const FormulaShape& shape);

// Its code as text, generated for the call.
std::string formula_ir(const FormulaShape& shape);

}  // namespace hocket::jit
