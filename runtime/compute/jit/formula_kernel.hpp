// Machine code for formulas over elements in memory. Each is compiled once per process and kept.
#pragma once

#include "runtime/compute/jit/interface/formula_shape.hpp"

namespace hocket::jit {

// Returns the formula's code; compiles it first if necessary. Thread-safe; throws what compiler.hpp does.
FormulaCode find_formula(const FormulaShape& shape);

}  // namespace hocket::jit
