// Generates the code of what kernels do with values in registers: combine them, and finish the result.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/Target/TargetMachine.h>

#include <optional>
#include <vector>

#include "runtime/compute/jit/interface/kernel_shape.hpp"
#include "runtime/compute/jit/llvm/elements.hpp"
#include "runtime/compute/jit/llvm/formula_emitter.hpp"

namespace hocket::jit {

// Values are single elements or vectors of them, in the type for calculations.
class KernelArithmetic {
  public:
    using Values = std::vector<llvm::Value*>;

    // All references must outlive it. operand_number, factor: the kernel's parameters; factor may be null if
    // the shape does not multiply.
    KernelArithmetic(const KernelShape& shape, const Elements& elements, llvm::IRBuilder<>& ir,
                     llvm::TargetMachine& machine, llvm::Value* operand_number, llvm::Value* factor);

    llvm::Value* multiplied(llvm::Value* value);  // by the factor
    Values combined(Values a, const Values& b);   // by the shape's operator, a pair at a time
    // Returns the values divided, in the type in memory, with the shape's epilogue.
    Values finished(Values values);

  private:
    llvm::Value* combined(llvm::Value* a, llvm::Value* b);
    llvm::Value* choose(llvm::Value* a_wins, llvm::Value* a, llvm::Value* b, const char* name);
    llvm::Value* divided(llvm::Value* value);

    const KernelShape& shape_;
    const Elements& elements_;
    llvm::IRBuilder<>& ir_;
    llvm::TargetMachine& machine_;
    llvm::Value *const operand_number_, *const factor_;
    std::optional<FormulaEmitter> defined_, epilogue_;
};

}  // namespace hocket::jit
