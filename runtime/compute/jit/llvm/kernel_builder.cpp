#include "runtime/compute/jit/llvm/kernel_builder.hpp"

#include <fmt/format.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <bit>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "runtime/compute/jit/llvm/elements.hpp"
#include "runtime/compute/jit/llvm/formula_emitter.hpp"

namespace hocket::jit {
namespace {

Elements elements_of(const KernelShape& shape, llvm::LLVMContext& context) {
    const std::size_t size = element_size(shape.type);
    if (shape.is_copy())
        return {llvm::Type::getIntNTy(context, 8 * size), size, size, false, as_it_is, as_it_is};
    return jit::elements_of(shape.type, context);
}

std::size_t lanes_of(const llvm::Value* value) {
    const auto* const vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
    return vector ? vector->getNumElements() : 1;
}

// The kernels' parameters.
enum Parameter : unsigned { areas, area_ids, begin_bytes, bytes, operand_number, destination_number };

class KernelBuilder {
  public:
    KernelBuilder(const KernelShape& shape, llvm::TargetMachine& machine, llvm::Module& module);

    void run();

  private:
    using Values = std::vector<llvm::Value*>;

    // Consecutive values in memory, from element `index` on: the work of one iteration of a loop.
    struct Piece {
        llvm::Value* index;
        std::size_t lanes;  // per value: 1 for an element, more for a vector
        std::size_t count;  // the number of values
    };
    // Emits code that reads all operands at a piece and writes it to all destinations.
    using Work = std::function<void(const Piece&)>;
    using LoopBody = llvm::function_ref<Values(llvm::Value* index, const Values& carried)>;

    llvm::Value* pointer(llvm::Value* k);
    Work unrolled_work();
    Work any_work();
    std::size_t block_vectors(unsigned vector_bits) const;
    llvm::Value* pieces(const std::string& name, llvm::Value* begin, Piece shape, const Work& work);
    Values loop(const std::string& name, llvm::Value* begin, llvm::Value* limit, std::size_t step,
                Values carried, LoopBody body);
    llvm::BasicBlock* block(const std::string& name);

    llvm::Type* stored_value(const Piece& piece);
    llvm::Value* address(llvm::Value* base, const Piece& piece, std::size_t k);
    Values load(llvm::Value* base, const Piece& piece);
    Values finished(Values values);
    llvm::Value* divided(llvm::Value* value);
    void store(llvm::Value* base, const Piece& piece, const Values& values);
    void store_unless(llvm::Value* skipped, llvm::Value* base, const Piece& piece, const Values& values);
    Values apply(Values a, const Values& b);
    llvm::Value* apply(llvm::Value* a, llvm::Value* b);
    llvm::Value* choose(llvm::Value* a_wins, llvm::Value* a, llvm::Value* b, const char* name);

    const KernelShape& shape_;
    llvm::TargetMachine& machine_;
    llvm::Module& module_;
    llvm::IRBuilder<> ir_;
    const Elements elements_;
    std::optional<FormulaEmitter> defined_, epilogue_;
    llvm::Function* kernel_;
    llvm::Value* count_;  // the number of elements
};

KernelBuilder::KernelBuilder(const KernelShape& shape, llvm::TargetMachine& machine, llvm::Module& module)
    : shape_(shape),
      machine_(machine),
      module_(module),
      ir_(module.getContext()),
      elements_(elements_of(shape, module.getContext())) {
    std::vector<llvm::Type*> parameters{ir_.getPtrTy(), ir_.getPtrTy()};
    constexpr const char* names[] = {"areas", "area_ids", "begin", "bytes", "operands", "destinations"};
    parameters.resize(std::size(names), ir_.getInt64Ty());
    kernel_ = llvm::Function::Create(llvm::FunctionType::get(ir_.getVoidTy(), parameters, false),
                                     llvm::Function::ExternalLinkage, name_of(shape), module_);
    kernel_->setDoesNotThrow();
    for (std::size_t i = 0; i < parameters.size(); ++i) kernel_->getArg(i)->setName(names[i]);
    ir_.SetInsertPoint(block("entry"));
    const auto emit = [&](std::optional<FormulaEmitter>& emitter,
                          const std::vector<dsl::Formula::Item>& items) {
        if (items.empty()) return;
        llvm::Type* const worked =
            elements_.worked_bytes == sizeof(double) ? ir_.getDoubleTy() : ir_.getFloatTy();
        emitter.emplace(ir_, machine_, items, worked,
                        [](const dsl::Formula::Item&) -> llvm::Value* { return nullptr; });
    };
    emit(defined_, shape.defined);
    emit(epilogue_, shape.epilogue);
    count_ = ir_.CreateLShr(kernel_->getArg(bytes), std::countr_zero(elements_.stored_bytes), "count", true);
}

void KernelBuilder::run() {
    // The width of a vector register depends only on the machine, but LLVM's query needs a function.
    const unsigned vector_bits = machine_.getTargetTransformInfo(*kernel_)
                                     .getRegisterBitWidth(llvm::TargetTransformInfo::RGK_FixedWidthVector)
                                     .getFixedValue();
    const std::size_t lanes = vector_bits / (8 * elements_.worked_bytes);
    const Work work = shape_.is_unrolled() ? unrolled_work() : any_work();
    llvm::Value* index = ir_.getInt64(0);
    if (lanes > 1) {
        index = pieces("blocks", index, {nullptr, lanes, block_vectors(vector_bits)}, work);
        if (!shape_.streamed) index = pieces("vectors", index, {nullptr, lanes, 1}, work);
    }
    if (shape_.streamed)
        // Other cores may see streaming stores later than stores that follow, but not later than this fence.
        ir_.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
    else
        pieces("elements", index, {nullptr, 1, 1}, work);
    ir_.CreateRetVoid();
}

// Returns the number of vectors in a block. Four are enough independent chains of additions to hide their
// latency. With many operands, a block takes half of the registers: the operands' streams then alternate less
// often, which suits the prefetchers, and pointers that are on the stack are loaded less often. Streaming
// stores to several destinations are slower with larger blocks, however, and LLVM's scheduler takes time
// quadratic in a block's length.
std::size_t KernelBuilder::block_vectors(unsigned vector_bits) const {
    constexpr std::size_t few_vectors = 4, many_operands = 8, most_accesses = 300;
    const std::size_t many_vectors = vector_bits >= 512 ? 16 : 8;
    const std::size_t streams = shape_.operands + shape_.destinations;
    if (!shape_.is_unrolled()) return many_vectors;
    if (shape_.streamed || shape_.operands < many_operands) return few_vectors;
    return many_vectors * streams <= most_accesses ? many_vectors : many_vectors / 2;
}

// Returns the address of the first element in the k-th area of area_ids.
llvm::Value* KernelBuilder::pointer(llvm::Value* k) {
    llvm::Value* id = ir_.CreateLoad(
        ir_.getInt32Ty(), ir_.CreateGEP(ir_.getInt32Ty(), kernel_->getArg(area_ids), k), "area_id");
    llvm::Value* area =
        ir_.CreateGEP(ir_.getPtrTy(), kernel_->getArg(areas), ir_.CreateZExt(id, ir_.getInt64Ty()));
    // Not inbounds, because a virtual base may lie outside the memory that it stands for.
    return ir_.CreateGEP(ir_.getInt8Ty(), ir_.CreateLoad(ir_.getPtrTy(), area, "base"),
                         kernel_->getArg(begin_bytes), "pointer");
}

KernelBuilder::Work KernelBuilder::unrolled_work() {
    const auto [operands, destinations] = std::pair(shape_.operands, shape_.destinations);
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
        result = finished(result);
        for (llvm::Value* destination : to) {
            if (shape_.is_copy())
                store_unless(ir_.CreateICmpEQ(destination, from[0], "is_source"), destination, piece, result);
            else
                store(destination, piece, result);
        }
    };
}

KernelBuilder::Work KernelBuilder::any_work() {
    llvm::Value* operands = kernel_->getArg(operand_number);
    llvm::Value* destinations = kernel_->getArg(destination_number);
    llvm::Value* source = pointer(destinations);
    return [=, this](const Piece& piece) {
        const auto combine = [&](llvm::Value* k, const Values& so_far) {
            return apply(so_far, load(pointer(ir_.CreateAdd(destinations, k)), piece));
        };
        Values result = load(source, piece);
        if (!shape_.is_copy()) {
            result = loop("operand", ir_.getInt64(1), operands, 1, result, combine);
            result.pop_back();  // the index
        }
        result = finished(result);
        loop("destination", ir_.getInt64(0), destinations, 1, {}, [&](llvm::Value* k, const Values&) {
            llvm::Value* destination = pointer(k);
            if (shape_.is_copy())
                store_unless(ir_.CreateICmpEQ(destination, source, "is_source"), destination, piece, result);
            else
                store(destination, piece, result);
            return Values();
        });
    };
}

// Works on pieces of the given shape as long as a whole one is left. Returns the index where it stopped.
llvm::Value* KernelBuilder::pieces(const std::string& name, llvm::Value* begin, Piece shape,
                                   const Work& work) {
    const std::size_t step = shape.count * shape.lanes;
    llvm::Value* limit = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, count_, ir_.getInt64(step - 1),
                                                   nullptr, "limit");
    const auto body = [&](llvm::Value* index, const Values&) {
        shape.index = index;
        work(shape);
        return Values();
    };
    return loop(name, begin, limit, step, {}, body).back();
}

// Emits for (index = begin; index < limit; index += step) carried = body(index, carried); returns the carried
// values and then the index, as they are after the loop.
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

llvm::Type* KernelBuilder::stored_value(const Piece& piece) {
    if (piece.lanes == 1) return elements_.stored;
    return llvm::FixedVectorType::get(elements_.stored, static_cast<unsigned>(piece.lanes));
}

// Returns the address of the piece's k-th value.
llvm::Value* KernelBuilder::address(llvm::Value* base, const Piece& piece, std::size_t k) {
    llvm::Value* at_index = ir_.CreateInBoundsGEP(elements_.stored, base, piece.index);
    return k == 0 ? at_index : ir_.CreateInBoundsGEP(stored_value(piece), at_index, ir_.getInt64(k));
}

// Returns the values in the type for calculations.
KernelBuilder::Values KernelBuilder::load(llvm::Value* base, const Piece& piece) {
    Values values;
    for (std::size_t k = 0; k < piece.count; ++k) {
        llvm::Value* stored = ir_.CreateAlignedLoad(stored_value(piece), address(base, piece, k),
                                                    llvm::Align(elements_.stored_bytes), "value");
        values.push_back(elements_.widen(ir_, machine_, stored));
    }
    return values;
}

// Returns the values in the type in memory.
KernelBuilder::Values KernelBuilder::finished(Values values) {
    for (llvm::Value*& value : values) {
        if (shape_.divisor != 1) value = divided(value);
        value = elements_.narrow(ir_, machine_, value);
        if (!epilogue_) continue;
        llvm::Value* const rounded = elements_.widen(ir_, machine_, value);
        value = epilogue_->value({rounded}, lanes_of(rounded));
        value = elements_.narrow(ir_, machine_, value);
    }
    return values;
}

// Divides; integers are rounded towards 0.
llvm::Value* KernelBuilder::divided(llvm::Value* value) {
    llvm::Type* type = value->getType();
    if (shape_.divisor == KernelShape::divisor_by_call) {
        llvm::Value* const one =
            ir_.CreateUIToFP(kernel_->getArg(operand_number), type->getScalarType(), "divisor");
        const std::size_t lanes = lanes_of(value);
        return ir_.CreateFDiv(
            value, lanes > 1 ? ir_.CreateVectorSplat(static_cast<unsigned>(lanes), one) : one, "average");
    }
    if (type->isFPOrFPVectorTy())
        return ir_.CreateFDiv(value, llvm::ConstantFP::get(type, shape_.divisor), "average");
    const unsigned bits = type->getScalarSizeInBits();
    // The divisor may be too large for the type. Then no value reaches it in magnitude, with one exception:
    // if the divisor is one more than the largest number, the smallest number does.
    const unsigned magnitude = elements_.is_signed ? bits - 1 : bits;
    if (magnitude < 32 && shape_.divisor >> magnitude != 0) {
        llvm::Value* zero = llvm::Constant::getNullValue(type);
        if (!elements_.is_signed || shape_.divisor != 1u << magnitude) return zero;
        llvm::Value* smallest = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(bits));
        return ir_.CreateSelect(ir_.CreateICmpEQ(value, smallest), llvm::Constant::getAllOnesValue(type),
                                zero, "average");
    }
    llvm::Value* divisor = llvm::ConstantInt::get(type, shape_.divisor);
    return elements_.is_signed ? ir_.CreateSDiv(value, divisor, "average")
                               : ir_.CreateUDiv(value, divisor, "average");
}

void KernelBuilder::store(llvm::Value* base, const Piece& piece, const Values& values) {
    for (std::size_t k = 0; k < piece.count; ++k) {
        const llvm::Align align(elements_.stored_bytes * (shape_.streamed ? piece.lanes : 1));
        llvm::StoreInst* store = ir_.CreateAlignedStore(values[k], address(base, piece, k), align);
        if (shape_.streamed)
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

// Gives the same bits as kernels/cpu/apply.hpp, because no fast-math flag is used.
llvm::Value* KernelBuilder::apply(llvm::Value* a, llvm::Value* b) {
    if (defined_) return defined_->value({a, b}, lanes_of(a));
    const bool floating = a->getType()->isFPOrFPVectorTy(), is_signed = elements_.is_signed;
    switch (row_of(shape_.op).combination) {
        case Combination::sum:
            return floating ? ir_.CreateFAdd(a, b, "sum") : ir_.CreateAdd(a, b, "sum");
        case Combination::product:
            return floating ? ir_.CreateFMul(a, b, "product") : ir_.CreateMul(a, b, "product");
        case Combination::max:
            return choose(floating    ? ir_.CreateFCmpOGT(a, b)
                          : is_signed ? ir_.CreateICmpSGT(a, b)
                                      : ir_.CreateICmpUGT(a, b),
                          a, b, "max");
        case Combination::min:
            return choose(floating    ? ir_.CreateFCmpOLT(a, b)
                          : is_signed ? ir_.CreateICmpSLT(a, b)
                                      : ir_.CreateICmpULT(a, b),
                          a, b, "min");
        case Combination::band:
            return ir_.CreateAnd(a, b, "band");
        case Combination::bor:
            return ir_.CreateOr(a, b, "bor");
        case Combination::bxor:
            return ir_.CreateXor(a, b, "bxor");
    }
    no_such_row(shape_.op);
}

// For max and min. The machine's own instructions follow the rule "a > b ? a : b". A NaN in `a` costs one
// more comparison and a blend, which is cheaper than llvm.maximum, which also orders zeros.
llvm::Value* KernelBuilder::choose(llvm::Value* a_wins, llvm::Value* a, llvm::Value* b, const char* name) {
    llvm::Value* chosen = ir_.CreateSelect(a_wins, a, b, name);
    if (!a->getType()->isFPOrFPVectorTy()) return chosen;
    return ir_.CreateSelect(ir_.CreateFCmpUNO(a, a), a, chosen, name);
}

}  // namespace

void build_kernel(const KernelShape& shape, llvm::TargetMachine& machine, llvm::Module& module) {
    KernelBuilder(shape, machine, module).run();
}

}  // namespace hocket::jit
