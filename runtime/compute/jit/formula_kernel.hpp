// Formulas over elements in memory, as machine code. Each is compiled once in the process and kept.
#pragma once

#include "runtime/compute/jit/interface/formula_shape.hpp"

namespace hocket::jit {

// Thread-safe; throws what compiler.hpp does.
FormulaCode find_formula(const FormulaShape& shape);

}  // namespace hocket::jit
