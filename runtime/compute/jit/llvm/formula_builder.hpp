// Generates the code of formula kernels.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <string>

#include "runtime/compute/jit/interface/formula_shape.hpp"

namespace hocket::jit {

// Adds a function of type FormulaCode to the module.
void build_formula(const FormulaShape& shape, const std::string& name, llvm::TargetMachine& machine,
                   llvm::Module& module);

}  // namespace hocket::jit
