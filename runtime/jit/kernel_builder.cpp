#include "runtime/jit/kernel_builder.hpp"

#include <fmt/format.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <bit>
#include <string>

#include "runtime/jit/streaming.hpp"

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

// Four vectors are enough independent chains of additions to hide their latency; and where stores stream,
// more at once for each of several destinations are slower.
constexpr std::size_t few_vectors = 4;
constexpr std::size_t many_operands = 8;

// The kernels' parameters.
enum Parameter : unsigned { areas, area_ids, begin_bytes, bytes, operand_number, destination_number };

}  // namespace

KernelBuilder::KernelBuilder(llvm::Module& module, DataType type, ReduceOp op, unsigned vector_bits)
    : module_(module),
      type_(type),
      op_(op),
      ir_(module.getContext()),
      element_(element_type(module.getContext(), type)),
      vector_lanes_(std::max<unsigned>(1, vector_bits / (8 * element_size(type)))),
      many_vectors_(vector_bits >= 512 ? 16 : 8) {}

llvm::Function* KernelBuilder::unrolled(std::size_t operands, std::size_t destinations) {
    llvm::Function*& kernel = unrolled_[{operands, destinations}];
    if (kernel) return kernel;
    std::string name = operands == 1 ? "copy" : fmt::format("combine{}", operands);
    if (destinations > 1) name += fmt::format("_to_{}", destinations);
    if (operands > 1) name += fmt::format("_{}_{}", name_of(type_), name_of(op_));

    const auto work = [&] { return unrolled_work(operands, destinations); };
    kernel = begin_kernel(name + "_cached", false);
    if (operands == 1 && destinations == 1)
        emit_memcpy();
    else
        emit_loops(operands < many_operands ? few_vectors : many_vectors_, work());
    if (can_stream()) {
        llvm::Function* cached = kernel;
        llvm::Function* streamed = begin_kernel(name + "_streamed", false);
        emit_streaming(few_vectors, cached, {ir_.getInt64(operands), ir_.getInt64(destinations)}, work);
        kernel = begin_kernel(name, false);
        emit_choice(least_streamed_bytes(operands, destinations), cached, streamed);
    }
    return kernel;
}

llvm::Function* KernelBuilder::any() {
    if (any_) return any_;
    const std::string name = fmt::format("combine_any_{}_{}", name_of(type_), name_of(op_));
    any_ = begin_kernel(name + "_cached", true);
    emit_loops(many_vectors_, any_work());
    if (can_stream()) {
        llvm::Function* cached = any_;
        any_ = begin_kernel(name, true);
        emit_streaming(many_vectors_, cached,
                       {any_->getArg(operand_number), any_->getArg(destination_number)},
                       [&] { return any_work(); });
    }
    return any_;
}

llvm::Function* KernelBuilder::begin_kernel(const std::string& name, bool takes_numbers) {
    std::vector<llvm::Type*> parameters{ir_.getPtrTy(), ir_.getPtrTy()};
    parameters.resize(takes_numbers ? 6 : 4, ir_.getInt64Ty());
    kernel_ = llvm::Function::Create(llvm::FunctionType::get(ir_.getVoidTy(), parameters, false),
                                     llvm::Function::InternalLinkage, name, module_);
    kernel_->setDoesNotThrow();
    constexpr const char* names[] = {"areas", "area_ids", "begin", "bytes", "operands", "destinations"};
    for (std::size_t i = 0; i < parameters.size(); ++i) kernel_->getArg(i)->setName(names[i]);
    ir_.SetInsertPoint(block("entry"));
    count_ = elements(kernel_->getArg(bytes), "count");
    return kernel_;
}

llvm::Value* KernelBuilder::elements(llvm::Value* bytes, const char* name) {
    return ir_.CreateLShr(bytes, std::countr_zero(element_size(type_)), name, true);
}

// Where the k-th of area_ids begins.
llvm::Value* KernelBuilder::pointer(llvm::Value* k) {
    llvm::Value* id = ir_.CreateLoad(
        ir_.getInt32Ty(), ir_.CreateGEP(ir_.getInt32Ty(), kernel_->getArg(area_ids), k), "area_id");
    llvm::Value* area =
        ir_.CreateGEP(ir_.getPtrTy(), kernel_->getArg(areas), ir_.CreateZExt(id, ir_.getInt64Ty()));
    // Not inbounds: a virtual base may lie outside of the memory that it stands for.
    return ir_.CreateGEP(ir_.getInt8Ty(), ir_.CreateLoad(ir_.getPtrTy(), area, "base"),
                         kernel_->getArg(begin_bytes), "pointer");
}

KernelBuilder::Work KernelBuilder::unrolled_work(std::size_t operands, std::size_t destinations) {
    Values to, from;
    for (std::size_t k = 0; k < destinations; ++k) {
        to.push_back(pointer(ir_.getInt64(k)));
        to.back()->setName(fmt::format("destination_{}", k));
    }
    for (std::size_t k = 0; k < operands; ++k) {
        from.push_back(pointer(ir_.getInt64(destinations + k)));
        from.back()->setName(fmt::format("operand_{}", k));
    }
    return [this, to, from](const Piece& piece) {
        Values result = load(from[0], piece);
        for (std::size_t k = 1; k < from.size(); ++k) result = apply(result, load(from[k], piece));
        for (llvm::Value* destination : to) {
            if (from.size() > 1)
                store(destination, piece, result);
            else
                store_unless(ir_.CreateICmpEQ(destination, from[0], "is_source"), destination, piece, result);
        }
    };
}

KernelBuilder::Work KernelBuilder::any_work() {
    llvm::Value* operands = kernel_->getArg(operand_number);
    llvm::Value* destinations = kernel_->getArg(destination_number);
    llvm::Value* source = pointer(destinations);
    llvm::Value* is_copy = ir_.CreateICmpEQ(operands, ir_.getInt64(1), "is_copy");
    return [=, this](const Piece& piece) {
        const auto combine = [&](llvm::Value* k, const Values& so_far) {
            return apply(so_far, load(pointer(ir_.CreateAdd(destinations, k)), piece));
        };
        const Values result = loop("operand", ir_.getInt64(1), operands, 1, load(source, piece), combine);
        loop("destination", ir_.getInt64(0), destinations, 1, {}, [&](llvm::Value* k, const Values&) {
            llvm::Value* destination = pointer(k);
            llvm::Value* is_source = ir_.CreateICmpEQ(destination, source, "is_source");
            store_unless(ir_.CreateAnd(is_copy, is_source), destination, piece, result);
            return Values();
        });
    };
}

void KernelBuilder::emit_loops(std::size_t block_vectors, const Work& work) {
    llvm::Value* index = ir_.getInt64(0);
    if (vector_lanes_ > 1) {
        llvm::Type* vector = llvm::FixedVectorType::get(element_, vector_lanes_);
        index = pieces("blocks", index, {nullptr, vector, block_vectors, false}, work);
        index = pieces("vectors", index, {nullptr, vector, 1, false}, work);
    }
    pieces("elements", index, {nullptr, element_, 1, false}, work);
    ir_.CreateRetVoid();
}

// From one area to another. Below the size for streaming, libc's is not to be beaten.
void KernelBuilder::emit_memcpy() {
    llvm::Value *destination = pointer(ir_.getInt64(0)), *source = pointer(ir_.getInt64(1));
    llvm::BasicBlock *copy = block("copy"), *done = block("done");
    ir_.CreateCondBr(ir_.CreateICmpEQ(destination, source, "is_source"), done, copy);
    ir_.SetInsertPoint(copy);
    const llvm::Align align(element_size(type_));
    ir_.CreateMemCpy(destination, align, source, align, kernel_->getArg(bytes))->setTailCall();
    ir_.CreateBr(done);
    ir_.SetInsertPoint(done);
    ir_.CreateRetVoid();
}

// The machines on which it was measured, and whose fence is known here.
bool KernelBuilder::can_stream() const {
    return vector_lanes_ > 1 && llvm::Triple(module_.getTargetTriple()).isX86();
}

// A function of its own, so that small operations don't pay for what large ones need.
void KernelBuilder::emit_choice(std::uint64_t least_bytes, llvm::Function* cached, llvm::Function* streamed) {
    Values arguments;
    for (llvm::Argument& argument : kernel_->args()) arguments.push_back(&argument);
    llvm::BasicBlock *small = block("small"), *large = block("large");
    ir_.CreateCondBr(ir_.CreateICmpULT(arguments[bytes], ir_.getInt64(least_bytes)), small, large);
    for (const auto& [where, function] : {std::pair(small, cached), {large, streamed}}) {
        ir_.SetInsertPoint(where);
        ir_.CreateCall(function, arguments)->setTailCall();
        ir_.CreateRetVoid();
    }
}

// Streams if streaming_head() says so. The `cached` kernel does what is left before and after whole blocks,
// or everything.
void KernelBuilder::emit_streaming(std::size_t block_vectors, llvm::Function* cached, Numbers numbers,
                                   llvm::function_ref<Work()> make_work) {
    const auto run_cached = [&](llvm::Value* begin, llvm::Value* size) {
        Values arguments;
        for (llvm::Argument& argument : kernel_->args()) arguments.push_back(&argument);
        arguments[begin_bytes] = begin;
        arguments[bytes] = size;
        return ir_.CreateCall(cached, arguments);
    };
    llvm::Value *begin = kernel_->getArg(begin_bytes), *size = kernel_->getArg(bytes);
    llvm::BasicBlock *refused = block("refused"), *streaming = block("streaming");
    llvm::Value* head = ask_for_head(numbers);
    ir_.CreateCondBr(ir_.CreateICmpEQ(head, ir_.getInt64(no_streaming)), refused, streaming);

    ir_.SetInsertPoint(refused);
    run_cached(begin, size)->setTailCall();
    ir_.CreateRetVoid();

    ir_.SetInsertPoint(streaming);
    run_cached(begin, head);
    llvm::Type* vector = llvm::FixedVectorType::get(element_, vector_lanes_);
    llvm::Value* index =
        pieces("streamed", elements(head, "head"), {nullptr, vector, block_vectors, true}, make_work());
    // Streaming stores may be seen later than those that follow them; not beyond this.
    ir_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
    llvm::Value* done = ir_.CreateMul(index, ir_.getInt64(element_size(type_)), "done");
    run_cached(ir_.CreateAdd(begin, done), ir_.CreateSub(size, done))->setTailCall();
    ir_.CreateRetVoid();
}

llvm::Value* KernelBuilder::ask_for_head(Numbers numbers) {
    llvm::Type *word = ir_.getInt64Ty(), *address = ir_.getPtrTy();
    const auto decide = module_.getOrInsertFunction(streaming_head_symbol, word, address, address, word, word,
                                                    word, word, word);
    return ir_.CreateCall(
        decide,
        {kernel_->getArg(areas), kernel_->getArg(area_ids), numbers.operands, numbers.destinations,
         kernel_->getArg(begin_bytes), kernel_->getArg(bytes), ir_.getInt64(element_size(type_))},
        "head_bytes");
}

// Works on pieces of the given shape while a whole one is left; gives the index where that ended.
llvm::Value* KernelBuilder::pieces(const std::string& name, llvm::Value* begin, Piece shape,
                                   const Work& work) {
    const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(shape.type);
    const std::size_t step = shape.count * (vector ? vector->getNumElements() : 1);
    llvm::Value* limit = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, count_, ir_.getInt64(step - 1),
                                                   nullptr, "limit");
    const auto body = [&](llvm::Value* index, const Values&) {
        shape.index = index;
        work(shape);
        return Values();
    };
    return loop(name, begin, limit, step, {}, body).back();
}

// for (index = begin; index < limit; index += step) carried = body(index, carried); gives the carried values
// and then the index, as they are after it.
KernelBuilder::Values KernelBuilder::loop(const std::string& name, llvm::Value* begin, llvm::Value* limit,
                                          std::size_t step, Values carried, LoopBody body) {
    carried.push_back(begin);
    llvm::BasicBlock *before = ir_.GetInsertBlock(), *inside = block(name), *after = block(name + "_done");
    ir_.CreateCondBr(ir_.CreateICmpULT(begin, limit), inside, after);

    ir_.SetInsertPoint(inside);
    std::vector<llvm::PHINode*> in, out;
    for (llvm::Value* value : carried) in.push_back(ir_.CreatePHI(value->getType(), 2));
    Values next = body(in.back(), Values(in.begin(), in.end() - 1));
    next.push_back(ir_.CreateNUWAdd(in.back(), ir_.getInt64(step), "next"));
    llvm::BasicBlock* inside_end = ir_.GetInsertBlock();
    ir_.CreateCondBr(ir_.CreateICmpULT(next.back(), limit), inside, after);

    ir_.SetInsertPoint(after);
    for (std::size_t i = 0; i < carried.size(); ++i) {
        out.push_back(ir_.CreatePHI(carried[i]->getType(), 2));
        for (llvm::PHINode* phi : {in[i], out[i]}) phi->addIncoming(carried[i], before);
        in[i]->addIncoming(next[i], inside_end);
        out[i]->addIncoming(next[i], inside_end);
    }
    in.back()->setName("index");
    return Values(out.begin(), out.end());
}

llvm::BasicBlock* KernelBuilder::block(const std::string& name) {
    return llvm::BasicBlock::Create(module_.getContext(), name, kernel_);
}

// Of the k-th value of the piece.
llvm::Value* KernelBuilder::address(llvm::Value* base, const Piece& piece, std::size_t k) {
    llvm::Value* at_index = ir_.CreateInBoundsGEP(element_, base, piece.index);
    return k == 0 ? at_index : ir_.CreateInBoundsGEP(piece.type, at_index, ir_.getInt64(k));
}

KernelBuilder::Values KernelBuilder::load(llvm::Value* base, const Piece& piece) {
    Values values;
    for (std::size_t k = 0; k < piece.count; ++k)
        values.push_back(ir_.CreateAlignedLoad(piece.type, address(base, piece, k),
                                               llvm::Align(element_size(type_)), "value"));
    return values;
}

void KernelBuilder::store(llvm::Value* base, const Piece& piece, const Values& values) {
    const std::size_t size = module_.getDataLayout().getTypeStoreSize(piece.type);
    for (std::size_t k = 0; k < piece.count; ++k) {
        const llvm::Align align(piece.streamed ? size : element_size(type_));
        llvm::StoreInst* store = ir_.CreateAlignedStore(values[k], address(base, piece, k), align);
        if (piece.streamed)
            store->setMetadata(
                llvm::LLVMContext::MD_nontemporal,
                llvm::MDNode::get(module_.getContext(), llvm::ConstantAsMetadata::get(ir_.getInt32(1))));
    }
}

void KernelBuilder::store_unless(llvm::Value* skipped, llvm::Value* base, const Piece& piece,
                                 const Values& values) {
    llvm::BasicBlock *write = block("write"), *written = block("written");
    ir_.CreateCondBr(skipped, written, write);
    ir_.SetInsertPoint(write);
    store(base, piece, values);
    ir_.CreateBr(written);
    ir_.SetInsertPoint(written);
}

KernelBuilder::Values KernelBuilder::apply(Values a, const Values& b) {
    for (std::size_t k = 0; k < a.size(); ++k) a[k] = apply(a[k], b[k]);
    return a;
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
