// Generates code for formulas, from elements that have already been loaded.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/Target/TargetMachine.h>

#include <functional>
#include <span>
#include <vector>

#include "dsl/graph/formula.hpp"

namespace hocket::jit {

// Gives the same bits as runtime/compute/program/formula_loop.cpp, because no fast-math flag is used.
class FormulaEmitter {
  public:
    // worked: float or double, the type for calculations. Values that don't depend on elements are calculated
    // once, at the current position of `ir`. uniform: returns a parameter's or a sum's value, as `worked`.
    FormulaEmitter(llvm::IRBuilder<>& ir, const llvm::TargetMachine& machine,
                   std::span<const dsl::Formula::Item> items, llvm::Type* worked,
                   const std::function<llvm::Value*(const dsl::Formula::Item&)>& uniform);

    // Returns the formula's value, with as many lanes as `elements`, which have the type for calculations, by
    // index. lanes: 1 for a single value.
    llvm::Value* value(const std::vector<llvm::Value*>& elements, std::size_t lanes);

  private:
    llvm::Value* calculate(const dsl::Formula::Item& item, llvm::Value* const* operands);
    llvm::Value* truth(llvm::Value* condition);
    llvm::Value* is_true(llvm::Value* value);
    llvm::Value* chosen(bool larger, llvm::Value* a, llvm::Value* b);
    llvm::Value* rounded(dsl::Formula::Op op, llvm::Value* value);
    llvm::Value* spread(llvm::Value* value, std::size_t lanes);

    llvm::IRBuilder<>& ir_;
    const llvm::TargetMachine& machine_;
    std::span<const dsl::Formula::Item> items_;
    std::vector<llvm::Value*> uniform_;  // by item: its value if it depends on no element, otherwise null
};

}  // namespace hocket::jit
