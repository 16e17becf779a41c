#include "runtime/jit/kernel_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>

namespace hocket::jit {
namespace {

llvm::Type* element_type(llvm::LLVMContext& context, DataType type) {
    switch (type) {
        case DataType::float32:
            return llvm::Type::getFloatTy(context);
        case DataType::float64:
            return llvm::Type::getDoubleTy(context);
        case DataType::int32:
            return llvm::Type::getInt32Ty(context);
        case DataType::int64:
            return llvm::Type::getInt64Ty(context);
    }
    return nullptr;
}

// Enough independent chains of additions to hide their latency, and each operand's pointer (which lives on
// the stack when there are many) is loaded once for so many vectors.
constexpr std::size_t vectors_per_block = 4;
constexpr std::size_t vectors_per_looping_block = 8;

}  // namespace

KernelBuilder::KernelBuilder(llvm::Module& module, DataType type, ReduceOp op, unsigned vector_bits)
    : module_(module),
      type_(type),
      op_(op),
      ir_(module.getContext()),
      element_(element_type(module.getContext(), type)),
      vector_lanes_(std::max<unsigned>(1, vector_bits / (8 * element_size(type)))) {}

llvm::Function* KernelBuilder::combine(std::size_t arity) {
    llvm::Function*& kernel = by_arity_[arity];
    if (kernel) return kernel;
    kernel = declare(std::to_string(arity), false);
    Values operands;
    for (std::size_t k = 0; k < arity; ++k) {
        operands.push_back(operand(kernel, ir_.getInt64(k)));
        operands.back()->setName(fmt::format("operand_{}", k));
    }
    emit_loops(kernel, vectors_per_block, [&](llvm::Value* index, llvm::Type* type, std::size_t count) {
        Values result = load(operands[0], index, type, count);
        for (std::size_t k = 1; k < arity; ++k) apply(result, load(operands[k], index, type, count));
        return result;
    });
    return kernel;
}

llvm::Function* KernelBuilder::combine_any() {
    if (any_) return any_;
    any_ = declare("_any", true);
    llvm::Value* first_operand = operand(any_, ir_.getInt64(0));
    emit_loops(any_, vectors_per_looping_block, [&](llvm::Value* index, llvm::Type* type, std::size_t count) {
        const Values first = load(first_operand, index, type, count);
        llvm::BasicBlock* before = ir_.GetInsertBlock();
        llvm::BasicBlock* loop = llvm::BasicBlock::Create(module_.getContext(), "each_operand", any_);
        llvm::BasicBlock* done = llvm::BasicBlock::Create(module_.getContext(), "combined", any_);
        ir_.CreateBr(loop);
        ir_.SetInsertPoint(loop);
        llvm::PHINode* k = ir_.CreatePHI(ir_.getInt64Ty(), 2, "k");
        k->addIncoming(ir_.getInt64(1), before);
        std::vector<llvm::PHINode*> so_far;
        for (llvm::Value* value : first) {
            so_far.push_back(ir_.CreatePHI(type, 2, "so_far"));
            so_far.back()->addIncoming(value, before);
        }
        Values result(so_far.begin(), so_far.end());
        apply(result, load(operand(any_, k), index, type, count));
        llvm::Value* next = ir_.CreateAdd(k, ir_.getInt64(1), "next");
        k->addIncoming(next, loop);
        for (std::size_t i = 0; i < count; ++i) so_far[i]->addIncoming(result[i], loop);
        ir_.CreateCondBr(ir_.CreateICmpULT(next, any_->getArg(2)), loop, done);
        ir_.SetInsertPoint(done);
        return result;
    });
    return any_;
}

llvm::Function* KernelBuilder::declare(const std::string& arity, bool takes_arity) {
    std::vector<llvm::Type*> parameters{ir_.getPtrTy(), ir_.getPtrTy()};
    parameters.resize(takes_arity ? 5 : 4, ir_.getInt64Ty());
    auto* kernel = llvm::Function::Create(
        llvm::FunctionType::get(ir_.getVoidTy(), parameters, false), llvm::Function::InternalLinkage,
        fmt::format("combine{}_{}_{}", arity, name_of(type_), name_of(op_)), module_);
    kernel->setDoesNotThrow();
    kernel->getArg(0)->setName("areas");
    kernel->getArg(1)->setName("area_ids");
    if (takes_arity) kernel->getArg(2)->setName("arity");
    llvm::Argument* bytes = kernel->getArg(parameters.size() - 1);
    kernel->getArg(parameters.size() - 2)->setName("begin");
    bytes->setName("bytes");

    ir_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", kernel));
    count_ = ir_.CreateLShr(bytes, std::countr_zero(element_size(type_)), "count", true);
    destination_ = operand(kernel, ir_.getInt64(-1));
    destination_->setName("destination");
    return kernel;
}

// The address of the k-th operand; of the destination where k is -1.
llvm::Value* KernelBuilder::operand(llvm::Function* kernel, llvm::Value* k) {
    llvm::Value* slot = ir_.CreateAdd(k, ir_.getInt64(1));
    llvm::Value* id =
        ir_.CreateLoad(ir_.getInt32Ty(), ir_.CreateGEP(ir_.getInt32Ty(), kernel->getArg(1), slot), "area_id");
    llvm::Value* area =
        ir_.CreateGEP(ir_.getPtrTy(), kernel->getArg(0), ir_.CreateZExt(id, ir_.getInt64Ty()));
    // Not inbounds: a virtual base may lie outside of the memory that it stands for.
    return ir_.CreateGEP(ir_.getInt8Ty(), ir_.CreateLoad(ir_.getPtrTy(), area, "base"),
                         kernel->getArg(kernel->arg_size() - 2), "operand");
}

void KernelBuilder::emit_loops(llvm::Function* kernel, std::size_t block_vectors, const Body& body) {
    llvm::Value* index = ir_.getInt64(0);
    if (vector_lanes_ > 1) {
        index = emit_loop(kernel, index, vector_lanes_, block_vectors, body);
        index = emit_loop(kernel, index, vector_lanes_, 1, body);
    }
    emit_loop(kernel, index, 1, 1, body);
    ir_.CreateRetVoid();
}

// From `begin` in steps of lanes * vectors while a whole step is left; gives the index where it ended.
llvm::Value* KernelBuilder::emit_loop(llvm::Function* kernel, llvm::Value* begin, unsigned lanes,
                                      std::size_t vectors, const Body& body) {
    llvm::LLVMContext& context = module_.getContext();
    const std::string name = lanes == 1 ? "elements" : vectors == 1 ? "vectors" : "blocks";
    llvm::Type* type = lanes == 1 ? element_ : llvm::FixedVectorType::get(element_, lanes);
    const std::size_t step = lanes * vectors;  // a power of two

    llvm::Value* limit = step == 1 ? count_ : ir_.CreateAnd(count_, ir_.getInt64(-step), name + "_limit");
    llvm::BasicBlock* before = ir_.GetInsertBlock();
    llvm::BasicBlock* loop = llvm::BasicBlock::Create(context, name, kernel);
    llvm::BasicBlock* after = llvm::BasicBlock::Create(context, name + "_done", kernel);
    ir_.CreateCondBr(ir_.CreateICmpULT(begin, limit), loop, after);

    ir_.SetInsertPoint(loop);
    llvm::PHINode* index = ir_.CreatePHI(ir_.getInt64Ty(), 2, "index");
    const Values result = body(index, type, vectors);
    for (std::size_t k = 0; k < vectors; ++k)
        ir_.CreateAlignedStore(result[k], address(destination_, index, type, k),
                               llvm::Align(element_size(type_)));
    llvm::Value* next = ir_.CreateNUWAdd(index, ir_.getInt64(step), "next");
    llvm::BasicBlock* loop_end = ir_.GetInsertBlock();
    index->addIncoming(begin, before);
    index->addIncoming(next, loop_end);
    ir_.CreateCondBr(ir_.CreateICmpULT(next, limit), loop, after);

    ir_.SetInsertPoint(after);
    llvm::PHINode* end = ir_.CreatePHI(ir_.getInt64Ty(), 2, name + "_end");
    end->addIncoming(begin, before);
    end->addIncoming(next, loop_end);
    return end;
}

// Of the k-th value of `type` from element `index` on.
llvm::Value* KernelBuilder::address(llvm::Value* base, llvm::Value* index, llvm::Type* type, std::size_t k) {
    llvm::Value* at_index = ir_.CreateInBoundsGEP(element_, base, index);
    return k == 0 ? at_index : ir_.CreateInBoundsGEP(type, at_index, ir_.getInt64(k));
}

KernelBuilder::Values KernelBuilder::load(llvm::Value* base, llvm::Value* index, llvm::Type* type,
                                          std::size_t count) {
    Values values;
    for (std::size_t k = 0; k < count; ++k)
        values.push_back(ir_.CreateAlignedLoad(type, address(base, index, type, k),
                                               llvm::Align(element_size(type_)), "value"));
    return values;
}

void KernelBuilder::apply(Values& result, const Values& next) {
    for (std::size_t k = 0; k < result.size(); ++k) result[k] = apply(result[k], next[k]);
}

// Bit for bit what kernels/cpu/combine.hpp defines: there is no fast-math flag anywhere. The machine's own
// max and min instructions have the rule "a > b ? a : b"; only the NaN in `a` costs a comparison and a blend
// more, which is cheaper than llvm.maximum with its order of zeros.
llvm::Value* KernelBuilder::apply(llvm::Value* a, llvm::Value* b) {
    const bool floating = element_->isFloatingPointTy();
    if (op_ == ReduceOp::sum) return floating ? ir_.CreateFAdd(a, b, "sum") : ir_.CreateAdd(a, b, "sum");
    const bool max = op_ == ReduceOp::max;
    if (!floating) {
        llvm::Value* a_wins = max ? ir_.CreateICmpSGT(a, b) : ir_.CreateICmpSLT(a, b);
        return ir_.CreateSelect(a_wins, a, b, max ? "max" : "min");
    }
    llvm::Value* a_wins = max ? ir_.CreateFCmpOGT(a, b) : ir_.CreateFCmpOLT(a, b);
    llvm::Value* chosen = ir_.CreateSelect(a_wins, a, b);
    return ir_.CreateSelect(ir_.CreateFCmpUNO(a, a), a, chosen, max ? "max" : "min");
}

}  // namespace hocket::jit
