// Generates the combine kernels of one element type and operator.
#pragma once

#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/types.hpp"

namespace hocket::jit {

// Kernels are functions of the module, made when first asked for:
//
//   combine3_float32_sum(areas, area_ids, begin, bytes)
//   combine_any_float32_sum(areas, area_ids, arity, begin, bytes)
//
// areas are the virtual bases; area_ids (32 bits each) are the destination's and then the operands'; begin
// and bytes tell where in the areas. So a call takes registers alone, whatever the arity.
//
// Kernels read all operands in one pass, a block of vectors at a time, then the rest by single vectors and by
// elements. A block of the destination is written only after that block of every operand was read: that is
// why the destination may be any one of them, and why no check for overlap is generated. For the same reason
// many operands are never combined in groups: the first group would overwrite an operand of the next.
class KernelBuilder {
  public:
    // vector_bits: the width of the machine's vector registers.
    KernelBuilder(llvm::Module& module, DataType type, ReduceOp op, unsigned vector_bits);

    // Up to this arity a kernel has its operands written out, above it loops over them.
    static constexpr std::size_t max_unrolled_arity = 16;

    llvm::Function* combine(std::size_t arity);  // 2 <= arity <= max_unrolled_arity
    llvm::Function* combine_any();

  private:
    using Values = std::vector<llvm::Value*>;
    // Emits the combination of all operands at `index`, as `count` values of `type`, one after another in
    // memory.
    using Body = std::function<Values(llvm::Value* index, llvm::Type* type, std::size_t count)>;

    llvm::Function* declare(const std::string& arity, bool takes_arity);
    llvm::Value* operand(llvm::Function* kernel, llvm::Value* k);
    void emit_loops(llvm::Function* kernel, std::size_t block_vectors, const Body& body);
    llvm::Value* emit_loop(llvm::Function* kernel, llvm::Value* begin, unsigned lanes, std::size_t vectors,
                           const Body& body);
    llvm::Value* address(llvm::Value* base, llvm::Value* index, llvm::Type* type, std::size_t k);
    Values load(llvm::Value* base, llvm::Value* index, llvm::Type* type, std::size_t count);
    void apply(Values& result, const Values& next);
    llvm::Value* apply(llvm::Value* a, llvm::Value* b);

    llvm::Module& module_;
    DataType type_;
    ReduceOp op_;
    llvm::IRBuilder<> ir_;
    llvm::Type* element_;
    unsigned vector_lanes_;
    llvm::Value* destination_ = nullptr;  // of the kernel being built
    llvm::Value* count_ = nullptr;
    std::map<std::size_t, llvm::Function*> by_arity_;
    llvm::Function* any_ = nullptr;
};

}  // namespace hocket::jit
