// Generates the combine and copy kernels of one element type and operator.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/types.hpp"

namespace hocket::jit {

// Kernels are functions of the module, made when first asked for:
//
//   combine3_float32_sum(areas, area_ids, begin, bytes)
//   combine3_to_2_float32_sum(areas, area_ids, begin, bytes)       the result goes to two areas
//   copy_to_2(areas, area_ids, begin, bytes)
//   combine_any_float32_sum(areas, area_ids, begin, bytes, operands, destinations)
//
// areas are the virtual bases; area_ids (32 bits each) are the destinations' and then the operands'; begin
// and bytes tell where in the areas. So a call takes registers alone, whatever the numbers. A copy is a
// kernel of one operand.
//
// Kernels read all operands in one pass, a block of vectors at a time, then the rest by single vectors and by
// elements. A block of the destinations is written only after that block of every operand was read: that is
// why a destination may be any one of them, and why no check for overlap is generated. For the same reason
// many operands are never combined in groups: the first group would overwrite an operand of the next.
//
// A large operation goes on to a kernel with streaming stores, combine3_float32_sum_streamed, if
// streaming.hpp says so: the elements before the first cache line of the destinations with plain stores, then
// blocks, so that whole lines leave at once. All others go on to combine3_float32_sum_cached.
//
// All elements come in through load() and leave through store(): what will be fused into a kernel (a cast, a
// scale, an expression) has its place there.
class KernelBuilder {
  public:
    // vector_bits: the width of the machine's vector registers.
    KernelBuilder(llvm::Module& module, DataType type, ReduceOp op, unsigned vector_bits);

    // Up to this many operands and destinations a kernel has them written out, above it loops over them.
    static constexpr std::size_t most_unrolled = 16;

    llvm::Function* unrolled(std::size_t operands, std::size_t destinations);  // 1 .. most_unrolled each
    llvm::Function* any();

  private:
    using Values = std::vector<llvm::Value*>;

    // Consecutive values in memory, from element `index` on: what an iteration of a kernel's loops works on.
    struct Piece {
        llvm::Value* index;
        llvm::Type* type;   // the element, or a vector
        std::size_t count;  // of values of the type
        bool streamed;
    };
    // Emits the reading of all operands at a piece, and the writing of all destinations.
    using Work = std::function<void(const Piece&)>;
    using LoopBody = llvm::function_ref<Values(llvm::Value* index, const Values& carried)>;
    struct Numbers {
        llvm::Value *operands, *destinations;
    };

    llvm::Function* begin_kernel(const std::string& name, bool takes_numbers);
    llvm::Value* elements(llvm::Value* bytes, const char* name);
    llvm::Value* pointer(llvm::Value* k);
    Work unrolled_work(std::size_t operands, std::size_t destinations);
    Work any_work();
    void emit_loops(std::size_t block_vectors, const Work& work);
    void emit_memcpy();
    bool can_stream() const;
    void emit_choice(std::uint64_t least_bytes, llvm::Function* cached, llvm::Function* streamed);
    void emit_streaming(std::size_t block_vectors, llvm::Function* cached, Numbers numbers,
                        llvm::function_ref<Work()> make_work);
    llvm::Value* ask_for_head(Numbers numbers);
    llvm::Value* pieces(const std::string& name, llvm::Value* begin, Piece shape, const Work& work);
    Values loop(const std::string& name, llvm::Value* begin, llvm::Value* limit, std::size_t step,
                Values carried, LoopBody body);
    llvm::BasicBlock* block(const std::string& name);

    llvm::Value* address(llvm::Value* base, const Piece& piece, std::size_t k);
    Values load(llvm::Value* base, const Piece& piece);
    void store(llvm::Value* base, const Piece& piece, const Values& values);
    void store_unless(llvm::Value* skipped, llvm::Value* base, const Piece& piece, const Values& values);
    Values apply(Values a, const Values& b);
    llvm::Value* apply(llvm::Value* a, llvm::Value* b);

    llvm::Module& module_;
    DataType type_;
    ReduceOp op_;
    llvm::IRBuilder<> ir_;
    llvm::Type* element_;
    unsigned vector_lanes_;
    // A block of so many vectors, half of the registers, for many operands: their streams take turns less
    // often, which the prefetchers like, and pointers that live on the stack are loaded less often.
    std::size_t many_vectors_;
    llvm::Function* kernel_ = nullptr;  // being built
    llvm::Value* count_ = nullptr;      // of its elements
    std::map<std::pair<std::size_t, std::size_t>, llvm::Function*> unrolled_;
    llvm::Function* any_ = nullptr;
};

}  // namespace hocket::jit
