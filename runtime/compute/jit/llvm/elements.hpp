// The properties of an element type that generated code depends on.
#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/Target/TargetMachine.h>

#include <cstddef>
#include <type_traits>

#include "runtime/base/types.hpp"
#include "runtime/compute/jit/llvm/conversions.hpp"

namespace hocket::jit {

struct Elements {
    using Convert = llvm::Value* (*)(llvm::IRBuilder<>&, const llvm::TargetMachine&, llvm::Value*);

    llvm::Type* stored;
    std::size_t stored_bytes, worked_bytes;
    bool is_signed;
    Convert widen, narrow;
};

template <typename T>
inline llvm::Type* stored_type(llvm::LLVMContext& context) {
    if constexpr (std::is_same_v<T, float>) return llvm::Type::getFloatTy(context);
    if constexpr (std::is_same_v<T, double>) return llvm::Type::getDoubleTy(context);
    return llvm::Type::getIntNTy(context, 8 * sizeof(T));  // also for types that are widened before use
}

template <typename Stored, typename Worked>
Elements elements_of(llvm::LLVMContext& context) {
    return {stored_type<Stored>(context),
            sizeof(Stored),
            sizeof(Worked),
            std::is_signed_v<Worked>,
            Conversion<Stored, Worked>::widen,
            Conversion<Stored, Worked>::narrow};
}

inline Elements elements_of(DataType type, llvm::LLVMContext& context) {
    return with_type(type, [&]<DataType t>(TypeConstant<t>) {
        using Element = ElementOf<t>;
        return elements_of<typename Element::Stored, typename Element::Worked>(context);
    });
}

}  // namespace hocket::jit
