// Short forms for code on structs in memory and for branches.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <cstdint>

namespace hocket::jit {

// Returns the address of a member, and its value. offset: in bytes.
inline llvm::Value* member_address(llvm::IRBuilder<>& ir, llvm::Value* object, std::uint64_t offset) {
    return ir.CreateConstInBoundsGEP1_64(ir.getInt8Ty(), object, offset);
}
inline llvm::Value* load_member(llvm::IRBuilder<>& ir, llvm::Type* type, llvm::Value* object,
                                std::uint64_t offset) {
    return ir.CreateLoad(type, member_address(ir, object, offset));
}
inline void store_member(llvm::IRBuilder<>& ir, llvm::Value* value, llvm::Value* object,
                         std::uint64_t offset) {
    ir.CreateStore(value, member_address(ir, object, offset));
}

// Returns the address of an array's element, and its value.
inline llvm::Value* element_address(llvm::IRBuilder<>& ir, llvm::Type* type, llvm::Value* array,
                                    llvm::Value* index) {
    return ir.CreateInBoundsGEP(type, array, index);
}
inline llvm::Value* load_element(llvm::IRBuilder<>& ir, llvm::Type* type, llvm::Value* array,
                                 llvm::Value* index) {
    return ir.CreateLoad(type, element_address(ir, type, array, index));
}

inline llvm::BasicBlock* new_block(llvm::IRBuilder<>& ir, const char* name) {
    return llvm::BasicBlock::Create(ir.getContext(), name, ir.GetInsertBlock()->getParent());
}

// Emits if (condition) body().
template <typename Body>
void emit_if(llvm::IRBuilder<>& ir, llvm::Value* condition, Body body) {
    llvm::BasicBlock *then = new_block(ir, "then"), *after = new_block(ir, "after");
    ir.CreateCondBr(condition, then, after);
    ir.SetInsertPoint(then);
    body();
    ir.CreateBr(after);
    ir.SetInsertPoint(after);
}

// Emits for (i = begin; i < end; i = body(i)); the body returns the next index. All have 64 bits.
template <typename Body>
void emit_for(llvm::IRBuilder<>& ir, llvm::Value* begin, llvm::Value* end, Body body) {
    llvm::BasicBlock *before = ir.GetInsertBlock(), *inside = new_block(ir, "loop"),
                     *after = new_block(ir, "done");
    ir.CreateCondBr(ir.CreateICmpULT(begin, end), inside, after);
    ir.SetInsertPoint(inside);
    llvm::PHINode* const index = ir.CreatePHI(ir.getInt64Ty(), 2, "index");
    llvm::Value* const next = body(index);
    index->addIncoming(begin, before);
    index->addIncoming(next, ir.GetInsertBlock());
    ir.CreateCondBr(ir.CreateICmpULT(next, end), inside, after);
    ir.SetInsertPoint(after);
}

}  // namespace hocket::jit
