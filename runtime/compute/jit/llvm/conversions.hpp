// Generates code that converts values from the type in memory to the type for calculations, and back.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/Target/TargetMachine.h>

#include "runtime/base/half.hpp"

namespace hocket::jit {

inline llvm::Value* as_it_is(llvm::IRBuilder<>&, const llvm::TargetMachine&, llvm::Value* value) {
    return value;
}

// One specialization for each pair of Stored and Worked in the rows of types.hpp. Values are elements, or
// vectors of elements.
template <typename Stored, typename Worked>
struct Conversion;

template <typename T>
struct Conversion<T, T> {
    static constexpr auto widen = as_it_is, narrow = as_it_is;
};

template <>
struct Conversion<Float16, float> {
    static llvm::Value* widen(llvm::IRBuilder<>& ir, const llvm::TargetMachine& machine, llvm::Value* value);
    static llvm::Value* narrow(llvm::IRBuilder<>& ir, const llvm::TargetMachine& machine, llvm::Value* value);
};

template <>
struct Conversion<BFloat16, float> {
    static llvm::Value* widen(llvm::IRBuilder<>& ir, const llvm::TargetMachine&, llvm::Value* value);
    static llvm::Value* narrow(llvm::IRBuilder<>& ir, const llvm::TargetMachine&, llvm::Value* value);
};

}  // namespace hocket::jit
