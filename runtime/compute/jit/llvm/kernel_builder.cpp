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
#include "runtime/compute/jit/llvm/kernel_arithmetic.hpp"

namespace hocket::jit {
namespace {

Elements elements_of(const KernelShape& shape, llvm::LLVMContext& context) {
    const std::size_t size = element_size(shape.type);
    if (shape.is_copy())
        return {llvm::Type::getIntNTy(context, 8 * size), size, size, false, as_it_is, as_it_is};
    return jit::elements_of(shape.type, context);
}

// The kernels' parameters. Code has the first ones; the others are for threads that share a kernel.
enum Parameter : unsigned {
    areas,
    area_ids,
    begin_bytes,
    bytes,
    operand_number,
    destination_number,
    parameters_of_code,
    factor = parameters_of_code,
    context,
};

class KernelBuilder {
  public:
    // target: null for a kernel that one thread runs by itself.
    KernelBuilder(const KernelShape& shape, const DeviceTarget* target, llvm::TargetMachine& machine,
                  llvm::Module& module);

    llvm::Function* run();

  private:
    using Values = KernelArithmetic::Values;

    // Values in memory, from element `index` on: the work of one iteration of a loop. They are consecutive,
    // or, if threads share the kernel, one after another with those of the other threads between them.
    struct Piece {
        llvm::Value* index;
        std::size_t lanes;  // per value: 1 for an element, more for a vector
        std::size_t count;  // the number of values
    };
    // Emits code that reads all operands at a piece and writes it to all destinations.
    using Work = std::function<void(const Piece&)>;
    using LoopBody = llvm::function_ref<Values(llvm::Value* index, const Values& carried)>;

    void create_function();
    void run_alone(const Work& work);
    void run_together(const Work& work);
    llvm::Value* unaligned_head();
    llvm::Value* differences_of_addresses(llvm::Value* first);
    llvm::Value* pointer(llvm::Value* k);
    Work unrolled_work();
    Work any_work();
    std::size_t block_vectors(unsigned vector_bits) const;
    std::size_t vectors_of_a_thread() const;
    llvm::Value* pieces(const std::string& name, llvm::Value* begin, Piece shape, const Work& work);
    void elements_in_turn(const std::string& name, llvm::Value* begin, llvm::Value* end, const Work& work);
    Values loop(const std::string& name, llvm::Value* begin, llvm::Value* limit, llvm::Value* step,
                Values carried, LoopBody body);
    Values loop(const std::string& name, llvm::Value* begin, llvm::Value* limit, std::size_t step,
                Values carried, LoopBody body) {
        return loop(name, begin, limit, ir_.getInt64(step), std::move(carried), body);
    }
    llvm::BasicBlock* block(const std::string& name);

    llvm::Type* stored_value(const Piece& piece);
    llvm::Align alignment(const Piece& piece) const;
    llvm::Value* address(llvm::Value* base, const Piece& piece, std::size_t k);
    void touch(llvm::Value* address, const Piece& piece, TwinAccess access);
    Values load(llvm::Value* base, const Piece& piece);
    void store(llvm::Value* base, const Piece& piece, const Values& values);
    void store_unless(llvm::Value* skipped, llvm::Value* base, const Piece& piece, const Values& values);

    const KernelShape& shape_;
    const DeviceTarget* const target_;
    llvm::TargetMachine& machine_;
    llvm::Module& module_;
    llvm::IRBuilder<> ir_;
    const Elements elements_;
    std::optional<KernelArithmetic> arithmetic_;
    llvm::Function* kernel_;
    llvm::Value* count_;                                  // the number of elements
    llvm::Value *thread_ = nullptr, *threads_ = nullptr;  // if threads share the kernel
    Values first_elements_;  // unrolled: the addresses in the destinations, then in the operands
};

KernelBuilder::KernelBuilder(const KernelShape& shape, const DeviceTarget* target,
                             llvm::TargetMachine& machine, llvm::Module& module)
    : shape_(shape),
      target_(target),
      machine_(machine),
      module_(module),
      ir_(module.getContext()),
      elements_(elements_of(shape, module.getContext())) {
    create_function();
    ir_.SetInsertPoint(block("entry"));
    if (target_) {
        thread_ = target_->thread(ir_, kernel_->getArg(context));
        threads_ = target_->threads(ir_, kernel_->getArg(context));
    }
    arithmetic_.emplace(shape_, elements_, ir_, machine_, kernel_->getArg(operand_number),
                        target_ ? kernel_->getArg(factor) : nullptr);
    count_ = ir_.CreateLShr(kernel_->getArg(bytes), std::countr_zero(elements_.stored_bytes), "count", true);
}

void KernelBuilder::create_function() {
    constexpr const char* names[] = {"areas",    "area_ids",     "begin",  "bytes",
                                     "operands", "destinations", "factor", "context"};
    std::vector<llvm::Type*> parameters{ir_.getPtrTy(), ir_.getPtrTy()};
    parameters.resize(parameters_of_code, ir_.getInt64Ty());
    if (target_) parameters.insert(parameters.end(), {ir_.getDoubleTy(), ir_.getPtrTy()});
    kernel_ =
        llvm::Function::Create(llvm::FunctionType::get(ir_.getVoidTy(), parameters, false),
                               target_ ? llvm::Function::InternalLinkage : llvm::Function::ExternalLinkage,
                               name_of(shape_), module_);
    kernel_->setDoesNotThrow();
    for (std::size_t i = 0; i < parameters.size(); ++i) kernel_->getArg(i)->setName(names[i]);
}

llvm::Function* KernelBuilder::run() {
    const Work work = shape_.is_unrolled() ? unrolled_work() : any_work();
    if (target_)
        run_together(work);
    else
        run_alone(work);
    ir_.CreateRetVoid();
    return kernel_;
}

void KernelBuilder::run_alone(const Work& work) {
    // The width of a vector register depends only on the machine, but LLVM's query needs a function.
    const unsigned vector_bits = machine_.getTargetTransformInfo(*kernel_)
                                     .getRegisterBitWidth(llvm::TargetTransformInfo::RGK_FixedWidthVector)
                                     .getFixedValue();
    const std::size_t lanes = vector_bits / (8 * elements_.worked_bytes);
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
}

// A thread's vectors are apart, so that at each access the vectors of neighbouring threads lie side by side.
void KernelBuilder::run_together(const Work& work) {
    constexpr std::size_t widest_access = 16;
    const std::size_t lanes = widest_access / elements_.stored_bytes;
    llvm::Value* const head = unaligned_head();
    elements_in_turn("head", ir_.getInt64(0), head, work);
    llvm::Value* index = pieces("blocks", head, {nullptr, lanes, vectors_of_a_thread()}, work);
    index = pieces("vectors", index, {nullptr, lanes, 1}, work);
    elements_in_turn("elements", index, count_, work);
}

// Returns the number of elements before the first that all areas have at an aligned address: all of them if
// there is none. A device cannot load vectors from other addresses.
llvm::Value* KernelBuilder::unaligned_head() {
    llvm::Value* const first = ir_.CreatePtrToInt(
        shape_.is_unrolled() ? first_elements_[0] : pointer(ir_.getInt64(0)), ir_.getInt64Ty());
    llvm::Value* const mask = ir_.getInt64(15);
    llvm::Value* const are_alike =
        ir_.CreateICmpEQ(ir_.CreateAnd(differences_of_addresses(first), mask), ir_.getInt64(0), "are_alike");
    llvm::Value* const elements =
        ir_.CreateLShr(ir_.CreateAnd(ir_.CreateNeg(first), mask), std::countr_zero(elements_.stored_bytes));
    return ir_.CreateSelect(are_alike, ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, elements, count_),
                            count_, "head");
}

// Returns the bits in which any area's address differs from `first`.
llvm::Value* KernelBuilder::differences_of_addresses(llvm::Value* first) {
    llvm::Value* differences = ir_.getInt64(0);
    const auto with = [&](llvm::Value* so_far, llvm::Value* address) {
        return ir_.CreateOr(so_far, ir_.CreateXor(ir_.CreatePtrToInt(address, ir_.getInt64Ty()), first));
    };
    if (shape_.is_unrolled()) {
        for (llvm::Value* address : first_elements_) differences = with(differences, address);
        return differences;
    }
    llvm::Value* const sources =
        shape_.is_copy() ? static_cast<llvm::Value*>(ir_.getInt64(1)) : kernel_->getArg(operand_number);
    llvm::Value* const number = ir_.CreateAdd(sources, kernel_->getArg(destination_number));
    return loop("area", ir_.getInt64(0), number, 1, {differences},
                [&](llvm::Value* k, const Values& so_far) { return Values{with(so_far[0], pointer(k))}; })[0];
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

// Returns the vectors that a thread has under way at a time: as many as a device's registers have room for.
std::size_t KernelBuilder::vectors_of_a_thread() const {
    constexpr std::size_t few_areas = 6;
    return shape_.is_unrolled() && shape_.operands + shape_.destinations <= few_areas ? 4 : 2;
}

// Returns the address of the first element in the k-th area of area_ids.
llvm::Value* KernelBuilder::pointer(llvm::Value* k) {
    llvm::Value* id = ir_.CreateLoad(
        ir_.getInt32Ty(), ir_.CreateGEP(ir_.getInt32Ty(), kernel_->getArg(area_ids), k), "area_id");
    llvm::Value* area =
        ir_.CreateGEP(ir_.getPtrTy(), kernel_->getArg(areas), ir_.CreateZExt(id, ir_.getInt64Ty()));
    // Not inbounds, because a virtual base may lie outside the memory that it stands for.
    llvm::Value* const address = ir_.CreateGEP(ir_.getInt8Ty(), ir_.CreateLoad(ir_.getPtrTy(), area, "base"),
                                               kernel_->getArg(begin_bytes), "pointer");
    return target_ ? target_->of_elements(ir_, address) : address;
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
    first_elements_ = to;
    first_elements_.insert(first_elements_.end(), from.begin(), from.end());
    return [this, to, from](const Piece& piece) {
        Values result = load(from[0], piece);
        if (shape_.multiplies)
            for (llvm::Value*& value : result) value = arithmetic_->multiplied(value);
        for (std::size_t k = 1; k < from.size(); ++k)
            result = arithmetic_->combined(result, load(from[k], piece));
        result = arithmetic_->finished(result);
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
            return arithmetic_->combined(so_far, load(pointer(ir_.CreateAdd(destinations, k)), piece));
        };
        Values result = load(source, piece);
        if (!shape_.is_copy()) {
            result = loop("operand", ir_.getInt64(1), operands, 1, result, combine);
            result.pop_back();  // the index
        }
        result = arithmetic_->finished(result);
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
    llvm::Value* step = ir_.getInt64(shape.count * shape.lanes);
    if (target_) step = ir_.CreateMul(step, threads_);
    llvm::Value* limit = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, count_,
                                                   ir_.CreateSub(step, ir_.getInt64(1)), nullptr, "limit");
    llvm::Value* const before = target_ ? ir_.CreateMul(thread_, ir_.getInt64(shape.lanes)) : nullptr;
    const auto body = [&](llvm::Value* index, const Values&) {
        shape.index = target_ ? ir_.CreateAdd(index, before) : index;
        work(shape);
        return Values();
    };
    return loop(name, begin, limit, step, {}, body).back();
}

// Each thread works on every element whose turn is its own.
void KernelBuilder::elements_in_turn(const std::string& name, llvm::Value* begin, llvm::Value* end,
                                     const Work& work) {
    loop(name, ir_.CreateAdd(begin, thread_), end, threads_, {}, [&](llvm::Value* index, const Values&) {
        work({index, 1, 1});
        return Values();
    });
}

// Emits for (index = begin; index < limit; index += step) carried = body(index, carried); returns the carried
// values and then the index, as they are after the loop.
KernelBuilder::Values KernelBuilder::loop(const std::string& name, llvm::Value* begin, llvm::Value* limit,
                                          llvm::Value* step, Values carried, LoopBody body) {
    carried.push_back(begin);
    llvm::BasicBlock *before = ir_.GetInsertBlock(), *inside = block(name), *after = block(name + "_done");
    ir_.CreateCondBr(ir_.CreateICmpULT(begin, limit), inside, after);

    ir_.SetInsertPoint(inside);
    std::vector<llvm::PHINode*> in, out;
    for (llvm::Value* value : carried) in.push_back(ir_.CreatePHI(value->getType(), 2));
    Values next = body(in.back(), Values(in.begin(), in.end() - 1));
    next.push_back(ir_.CreateNUWAdd(in.back(), step, "next"));
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
    if (k == 0) return at_index;
    llvm::Value* const further = target_ ? ir_.CreateMul(ir_.getInt64(k), threads_) : ir_.getInt64(k);
    return ir_.CreateInBoundsGEP(stored_value(piece), at_index, further);
}

llvm::Align KernelBuilder::alignment(const Piece& piece) const {
    const bool is_aligned = shape_.streamed || target_;
    return llvm::Align(elements_.stored_bytes * (is_aligned ? piece.lanes : 1));
}

void KernelBuilder::touch(llvm::Value* address, const Piece& piece, TwinAccess access) {
    if (target_)
        target_->touch(ir_, kernel_->getArg(context), address,
                       ir_.getInt64(piece.lanes * elements_.stored_bytes), access);
}

// Returns the values in the type for calculations.
KernelBuilder::Values KernelBuilder::load(llvm::Value* base, const Piece& piece) {
    Values values;
    for (std::size_t k = 0; k < piece.count; ++k) {
        llvm::Value* const from = address(base, piece, k);
        touch(from, piece, TwinAccess::read);
        const llvm::Align align = target_ ? alignment(piece) : llvm::Align(elements_.stored_bytes);
        llvm::Value* stored = ir_.CreateAlignedLoad(stored_value(piece), from, align, "value");
        values.push_back(elements_.widen(ir_, machine_, stored));
    }
    return values;
}

void KernelBuilder::store(llvm::Value* base, const Piece& piece, const Values& values) {
    for (std::size_t k = 0; k < piece.count; ++k) {
        llvm::Value* const to = address(base, piece, k);
        touch(to, piece, TwinAccess::write);
        llvm::StoreInst* store = ir_.CreateAlignedStore(values[k], to, alignment(piece));
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

}  // namespace

void build_kernel(const KernelShape& shape, llvm::TargetMachine& machine, llvm::Module& module) {
    KernelBuilder(shape, nullptr, machine, module).run();
}

llvm::Function* build_shared_kernel(const KernelShape& shape, const DeviceTarget& target,
                                    llvm::TargetMachine& machine, llvm::Module& module) {
    return KernelBuilder(shape, &target, machine, module).run();
}

}  // namespace hocket::jit
