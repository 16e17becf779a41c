#include "runtime/compute/jit/llvm/device_target.hpp"

#include <fmt/format.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <utility>

namespace hocket::jit {
namespace {

using llvm::Value;
using Builder = DeviceTarget::Builder;

// Under the sanitizers GCC 12 takes the delete that follows a constructor's exception for another one than
// belongs to LLVM's new.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

// No constant: LLVM would take the zeros of PTX for what is read.
llvm::GlobalVariable* add_table(llvm::Module& module, const std::vector<std::uint32_t>& values,
                                unsigned address_space) {
    llvm::Constant* const data = llvm::ConstantDataArray::get(module.getContext(), values);
    return new llvm::GlobalVariable(module, data->getType(), false, llvm::GlobalValue::InternalLinkage, data,
                                    numbers_name, nullptr, llvm::GlobalValue::NotThreadLocal, address_space,
                                    true);
}

// ---- PTX ----------------------------------------------------------------------------------------

// LLVM 19 cannot select accesses that acquire and release for PTX, and makes relaxed ones of the atomic
// operations, without a word. So these are PTX as text.
class PtxTarget final : public DeviceTarget {
  public:
    llvm::Function* create_entry(llvm::Module& module) const override {
        llvm::LLVMContext& context = module.getContext();
        auto* const type = llvm::FunctionType::get(llvm::Type::getVoidTy(context),
                                                   {llvm::PointerType::get(context, 0)}, false);
        auto* const entry =
            llvm::Function::Create(type, llvm::Function::ExternalLinkage, device_kernel_name, module);
        entry->setCallingConv(llvm::CallingConv::PTX_Kernel);
        annotate(module, entry, "kernel", 1);
        annotate(module, entry, "maxntidx", most_device_threads);
        return entry;
    }

    Value* context(Builder& ir, llvm::Function*) const override {
        return llvm::ConstantPointerNull::get(ir.getPtrTy());
    }
    Value* thread(Builder& ir, Value*) const override {
        return special(ir, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
    }
    Value* threads(Builder& ir, Value*) const override {
        return special(ir, llvm::Intrinsic::nvvm_read_ptx_sreg_ntid_x);
    }
    Value* blocks(Builder& ir, Value*) const override {
        return special(ir, llvm::Intrinsic::nvvm_read_ptx_sreg_nctaid_x);
    }

    Value* shared(Builder& ir, Value*, unsigned word) const override {
        llvm::Module& module = *ir.GetInsertBlock()->getModule();
        llvm::GlobalVariable* words = module.getNamedGlobal("block_words");
        if (words == nullptr) {
            auto* const type = llvm::ArrayType::get(ir.getInt64Ty(), shared_words);
            words = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage,
                                             llvm::UndefValue::get(type), "block_words", nullptr,
                                             llvm::GlobalValue::NotThreadLocal, shared_space);
        }
        return ir.CreateConstInBoundsGEP1_64(ir.getInt64Ty(), words, word);
    }
    void barrier(Builder& ir, Value*) const override {
        ir.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
    }
    Value* now(Builder& ir, Value*) const override {
        return assembly(ir, ir.getInt64Ty(), "mov.u64 $0, %globaltimer;", "=l", {});
    }
    void pause(Builder&, Value*) const override {}

    Value* acquire(Builder& ir, llvm::Type* type, Value* address) const override {
        return assembly(ir, type, fmt::format("ld.acquire.sys.global.u{} $0, [$1];", bits(type)),
                        fmt::format("={},l", letter(type)), {number(ir, address)});
    }
    void release(Builder& ir, Value* address, Value* value) const override {
        llvm::Type* const type = value->getType();
        assembly(ir, ir.getVoidTy(), fmt::format("st.release.sys.global.u{} [$0], $1;", bits(type)),
                 fmt::format("l,{}", letter(type)), {number(ir, address), value});
    }
    Value* load_word(Builder& ir, Value* address) const override {
        return assembly(ir, ir.getInt64Ty(), "ld.relaxed.sys.global.u64 $0, [$1];", "=l,l",
                        {number(ir, address)});
    }
    void fence(Builder& ir) const override { assembly(ir, ir.getVoidTy(), "fence.acq_rel.sys;", "", {}); }
    void store_word(Builder& ir, Value* address, Value* value) const override {
        assembly(ir, ir.getVoidTy(), "st.relaxed.sys.global.u64 [$0], $1;", "l,l",
                 {number(ir, address), value});
    }
    Value* add(Builder& ir, Value* address, std::uint32_t value) const override {
        return atomic(ir, "add.u32", address, value);
    }
    Value* exchange(Builder& ir, Value* address, std::uint32_t value) const override {
        return atomic(ir, "exch.b32", address, value);
    }

    Value* of_elements(Builder& ir, Value* address) const override {
        return ir.CreateAddrSpaceCast(address, ir.getPtrTy(global_space));
    }
    llvm::Constant* numbers(llvm::Module& module, const DeviceShape& shape) const override {
        const std::vector<std::uint32_t> zeros(numbers_of(shape).size());
        return llvm::ConstantExpr::getAddrSpaceCast(add_table(module, zeros, global_space),
                                                    llvm::PointerType::get(module.getContext(), 0));
    }
    void touch(Builder&, Value*, Value*, Value*, TwinAccess) const override {}

  private:
    static constexpr unsigned global_space = 1, shared_space = 3;

    static void annotate(llvm::Module& module, llvm::Function* entry, const char* what, std::uint32_t value) {
        llvm::LLVMContext& context = module.getContext();
        llvm::Metadata* const operands[] = {
            llvm::ValueAsMetadata::get(entry), llvm::MDString::get(context, what),
            llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), value))};
        module.getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(context, operands));
    }

    static Value* special(Builder& ir, llvm::Intrinsic::ID id) {
        return ir.CreateZExt(ir.CreateIntrinsic(id, {}, {}), ir.getInt64Ty());
    }
    static unsigned bits(llvm::Type* type) { return type->getIntegerBitWidth(); }
    static char letter(llvm::Type* type) { return bits(type) == 64 ? 'l' : 'r'; }
    static Value* number(Builder& ir, Value* address) { return ir.CreatePtrToInt(address, ir.getInt64Ty()); }

    // No access may be moved across it.
    static Value* assembly(Builder& ir, llvm::Type* result, const std::string& text,
                           const std::string& constraints, const std::vector<Value*>& operands) {
        std::vector<llvm::Type*> types;
        for (const Value* operand : operands) types.push_back(operand->getType());
        auto* const type = llvm::FunctionType::get(result, types, false);
        return ir.CreateCall(llvm::InlineAsm::get(type, text, constraints + ",~{memory}", true), operands);
    }
    static Value* atomic(Builder& ir, const char* name, Value* address, std::uint32_t value) {
        return assembly(ir, ir.getInt32Ty(), fmt::format("atom.acq_rel.gpu.global.{} $0, [$1], $2;", name),
                        "=r,l,r", {number(ir, address), ir.getInt32(value)});
    }
};

// ---- The twin -----------------------------------------------------------------------------------

class TwinTarget final : public DeviceTarget {
  public:
    TwinTarget(std::string name, bool tells_accesses)
        : name_(std::move(name)), tells_accesses_(tells_accesses) {}

    llvm::Function* create_entry(llvm::Module& module) const override {
        llvm::LLVMContext& context = module.getContext();
        llvm::Type* const pointer = llvm::PointerType::get(context, 0);
        auto* const type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, pointer}, false);
        return llvm::Function::Create(type, llvm::Function::ExternalLinkage, name_, module);
    }
    Value* context(Builder&, llvm::Function* entry) const override { return entry->getArg(1); }
    Value* thread(Builder& ir, Value* context) const override {
        return member(ir, ir.getInt64Ty(), context, offsetof(TwinThread, thread));
    }
    Value* threads(Builder& ir, Value* context) const override {
        return member(ir, ir.getInt64Ty(), context, offsetof(TwinThread, threads));
    }
    Value* blocks(Builder& ir, Value* context) const override {
        return member(ir, ir.getInt64Ty(), context, offsetof(TwinThread, blocks));
    }
    Value* shared(Builder& ir, Value* context, unsigned word) const override {
        Value* const words = member(ir, ir.getPtrTy(), context, offsetof(TwinThread, shared));
        return ir.CreateConstInBoundsGEP1_64(ir.getInt64Ty(), words, word);
    }
    void barrier(Builder& ir, Value* context) const override {
        call(ir, ir.getVoidTy(), offsetof(TwinThread, barrier), {context});
    }
    Value* now(Builder& ir, Value* context) const override {
        return call(ir, ir.getInt64Ty(), offsetof(TwinThread, now), {context});
    }
    void pause(Builder& ir, Value* context) const override {
        call(ir, ir.getVoidTy(), offsetof(TwinThread, pause), {context});
    }

    Value* acquire(Builder& ir, llvm::Type* type, Value* address) const override {
        llvm::LoadInst* const load = ir.CreateAlignedLoad(type, address, natural(type));
        load->setAtomic(llvm::AtomicOrdering::Acquire);
        return load;
    }
    void release(Builder& ir, Value* address, Value* value) const override {
        ir.CreateAlignedStore(value, address, natural(value->getType()))
            ->setAtomic(llvm::AtomicOrdering::Release);
    }
    Value* load_word(Builder& ir, Value* address) const override {
        llvm::LoadInst* const load = ir.CreateAlignedLoad(ir.getInt64Ty(), address, llvm::Align(8));
        load->setAtomic(llvm::AtomicOrdering::Monotonic);
        return load;
    }
    void fence(Builder& ir) const override { ir.CreateFence(llvm::AtomicOrdering::AcquireRelease); }
    void store_word(Builder& ir, Value* address, Value* value) const override {
        ir.CreateAlignedStore(value, address, llvm::Align(8))->setAtomic(llvm::AtomicOrdering::Monotonic);
    }
    Value* add(Builder& ir, Value* address, std::uint32_t value) const override {
        return atomic(ir, llvm::AtomicRMWInst::Add, address, value);
    }
    Value* exchange(Builder& ir, Value* address, std::uint32_t value) const override {
        return atomic(ir, llvm::AtomicRMWInst::Xchg, address, value);
    }

    Value* of_elements(Builder&, Value* address) const override { return address; }
    llvm::Constant* numbers(llvm::Module& module, const DeviceShape& shape) const override {
        return add_table(module, numbers_of(shape), 0);
    }
    void touch(Builder& ir, Value* context, Value* address, Value* number, TwinAccess access) const override {
        if (!tells_accesses_) return;
        call(ir, ir.getVoidTy(), offsetof(TwinThread, touch),
             {context, address, number, ir.getInt32(static_cast<std::uint32_t>(access))});
    }

  private:
    static Value* member(Builder& ir, llvm::Type* type, Value* context, std::uint64_t offset) {
        return ir.CreateLoad(type, ir.CreateConstInBoundsGEP1_64(ir.getInt8Ty(), context, offset));
    }
    // Calls a function of the TwinThread, which is the first operand.
    static Value* call(Builder& ir, llvm::Type* result, std::uint64_t offset,
                       const std::vector<Value*>& operands) {
        std::vector<llvm::Type*> types;
        for (const Value* operand : operands) types.push_back(operand->getType());
        return ir.CreateCall(llvm::FunctionType::get(result, types, false),
                             member(ir, ir.getPtrTy(), operands[0], offset), operands);
    }
    static llvm::Align natural(llvm::Type* type) { return llvm::Align(type->getIntegerBitWidth() / 8); }
    static Value* atomic(Builder& ir, llvm::AtomicRMWInst::BinOp operation, Value* address,
                         std::uint32_t value) {
        return ir.CreateAtomicRMW(operation, address, ir.getInt32(value), llvm::MaybeAlign(4),
                                  llvm::AtomicOrdering::AcquireRelease);
    }

    const std::string name_;
    const bool tells_accesses_;
};

}  // namespace

std::unique_ptr<DeviceTarget> make_ptx_target() {
    return std::make_unique<PtxTarget>();
}

std::unique_ptr<DeviceTarget> make_twin_target(std::string name, bool tells_accesses) {
    return std::make_unique<TwinTarget>(std::move(name), tells_accesses);
}

}  // namespace hocket::jit
