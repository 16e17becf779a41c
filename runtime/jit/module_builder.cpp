#include "runtime/jit/module_builder.hpp"

#include <fmt/format.h>
#include <llvm/Analysis/InstSimplifyFolder.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "runtime/error.hpp"
#include "runtime/jit/kernel_builder.hpp"

namespace hocket::jit {
namespace {

class ModuleBuilder {
  public:
    ModuleBuilder(const CodeSource& source, llvm::TargetMachine& machine, llvm::Module& module)
        : source_(source),
          machine_(machine),
          module_(module),
          ir_(module.getContext(), llvm::InstSimplifyFolder(module.getDataLayout())) {}

    void emit_bind();
    void emit_steps();

  private:
    llvm::Function* declare(const std::string& name, llvm::Function::LinkageTypes linkage,
                            llvm::ArrayRef<llvm::Type*> parameters, llvm::ArrayRef<const char*> names);
    struct Division {
        llvm::Value* whole;
        std::uint64_t den;
        llvm::Value *q, *r;  // whole = q * den + r
    };
    Division divide(llvm::Value* count, std::uint64_t den);
    llvm::Value* offset(const Division& count, llvm::Value* num);
    void emit_offset_loop(llvm::Function* part, const Division& count,
                          const std::vector<dsl::BoundaryId>& boundaries);
    void store_offset(llvm::Function* part, llvm::Value* boundary, llvm::Value* offset);
    llvm::Function* emit_step(dsl::OpId id, KernelBuilder& kernels);
    llvm::Value* load_offset(llvm::Function* step, dsl::BoundaryId boundary);
    llvm::Constant* area_ids(dsl::OpId id);
    template <typename T>
    llvm::Constant* constant_list(const std::vector<T>& values, const std::string& name) {
        return define(name, llvm::GlobalValue::InternalLinkage,
                      llvm::ConstantDataArray::get(module_.getContext(), values));
    }
    llvm::Constant* define(llvm::StringRef name, llvm::GlobalValue::LinkageTypes linkage,
                           llvm::Constant* value);

    const CodeSource& source_;
    llvm::TargetMachine& machine_;
    llvm::Module& module_;
    llvm::IRBuilder<llvm::InstSimplifyFolder> ir_;
};

llvm::Function* ModuleBuilder::declare(const std::string& name, llvm::Function::LinkageTypes linkage,
                                       llvm::ArrayRef<llvm::Type*> parameters,
                                       llvm::ArrayRef<const char*> names) {
    auto* function = llvm::Function::Create(llvm::FunctionType::get(ir_.getVoidTy(), parameters, false),
                                            linkage, name, module_);
    function->setDoesNotThrow();
    for (std::size_t i = 0; i < names.size(); ++i) function->getArg(i)->setName(names[i]);
    ir_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", function));
    return function;
}

// Boundaries with the same denominator share the division of the count. Few of them become straight code,
// many a loop over their numerators; and a function takes few denominators: LLVM's schedulers take quadratic
// time for long straight code.
void ModuleBuilder::emit_bind() {
    constexpr std::size_t most_straight = 8, denominators_per_function = 8;
    std::map<std::uint64_t, std::vector<dsl::BoundaryId>> by_denominator;
    for (dsl::BoundaryId b = 0; b < source_.boundaries.size(); ++b)
        by_denominator[source_.boundaries[b].den()].push_back(b);

    const std::array<llvm::Type*, 2> parameters{ir_.getInt64Ty(), ir_.getPtrTy()};
    std::vector<llvm::Function*> parts;
    std::size_t done = 0;
    for (const auto& [den, boundaries] : by_denominator) {
        if (done % denominators_per_function == 0)
            parts.push_back(declare(fmt::format("bind_part_{}", parts.size()),
                                    llvm::Function::InternalLinkage, parameters, {"count", "byte_offsets"}));
        const Division count = divide(parts.back()->getArg(0), den);
        if (boundaries.size() <= most_straight) {
            for (const dsl::BoundaryId b : boundaries)
                store_offset(parts.back(), ir_.getInt32(b),
                             offset(count, ir_.getInt64(source_.boundaries[b].num())));
        } else {
            emit_offset_loop(parts.back(), count, boundaries);
        }
        if (++done % denominators_per_function == 0 || done == by_denominator.size()) ir_.CreateRetVoid();
    }
    llvm::Function* bind =
        declare(bind_symbol.str(), llvm::Function::ExternalLinkage, parameters, {"count", "byte_offsets"});
    for (llvm::Function* part : parts) ir_.CreateCall(part, {bind->getArg(0), bind->getArg(1)});
    ir_.CreateRetVoid();
}

void ModuleBuilder::emit_offset_loop(llvm::Function* part, const Division& count,
                                     const std::vector<dsl::BoundaryId>& boundaries) {
    std::vector<std::uint64_t> numerators;
    for (const dsl::BoundaryId b : boundaries) numerators.push_back(source_.boundaries[b].num());
    llvm::Constant* ids = constant_list(boundaries, fmt::format("boundaries_over_{}", count.den));
    llvm::Constant* nums = constant_list(numerators, fmt::format("numerators_over_{}", count.den));

    llvm::BasicBlock* before = ir_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(module_.getContext(), fmt::format("over_{}", count.den), part);
    auto* after = llvm::BasicBlock::Create(module_.getContext(), fmt::format("after_{}", count.den), part);
    ir_.CreateBr(loop);
    ir_.SetInsertPoint(loop);
    llvm::PHINode* k = ir_.CreatePHI(ir_.getInt64Ty(), 2, "k");
    const auto element = [&](llvm::Type* type, llvm::Constant* list, const char* name) {
        return ir_.CreateLoad(type, ir_.CreateInBoundsGEP(type, list, k), name);
    };
    llvm::Value* num = element(ir_.getInt64Ty(), nums, "num");
    store_offset(part, element(ir_.getInt32Ty(), ids, "boundary"), offset(count, num));
    llvm::Value* next = ir_.CreateAdd(k, ir_.getInt64(1), "next");
    k->addIncoming(ir_.getInt64(0), before);
    k->addIncoming(next, loop);
    ir_.CreateCondBr(ir_.CreateICmpULT(next, ir_.getInt64(boundaries.size())), loop, after);
    ir_.SetInsertPoint(after);
}

ModuleBuilder::Division ModuleBuilder::divide(llvm::Value* count, std::uint64_t den) {
    llvm::Value* q = ir_.CreateUDiv(count, ir_.getInt64(den), fmt::format("q_{}", den));
    llvm::Value* r = ir_.CreateSub(count, ir_.CreateMul(q, ir_.getInt64(den)), fmt::format("r_{}", den));
    return {count, den, q, r};
}

// floor(num * count / den) without a product of more than 64 bits. Let count = q * den + r with r < den; then
//   num * count / den = num * q + num * r / den,
// and num * q is whole, so the floor is num * q + floor(num * r / den): exact. As num <= den, the first
// product is at most count, and the second is less than den * den, so it fits where den is at most 2^32.
llvm::Value* ModuleBuilder::offset(const Division& count, llvm::Value* num) {
    llvm::Value* den = ir_.getInt64(count.den);
    if (count.den > std::uint64_t{1} << 32) {
        llvm::Type* word = ir_.getInt64Ty();
        const auto wide = module_.getOrInsertFunction(wide_offset_symbol, word, word, word, word);
        return ir_.CreateCall(wide, {num, den, count.whole});
    }
    return ir_.CreateAdd(ir_.CreateMul(count.q, num), ir_.CreateUDiv(ir_.CreateMul(count.r, num), den),
                         "offset");
}

void ModuleBuilder::store_offset(llvm::Function* part, llvm::Value* boundary, llvm::Value* offset) {
    llvm::Value* bytes = ir_.CreateMul(offset, ir_.getInt64(element_size(source_.type)), "bytes");
    llvm::Value* index = ir_.CreateZExt(boundary, ir_.getInt64Ty());
    ir_.CreateStore(bytes, ir_.CreateInBoundsGEP(ir_.getInt64Ty(), part->getArg(1), index));
}

void ModuleBuilder::emit_steps() {
    // The width depends on the machine alone; LLVM wants a function to ask about.
    const auto costs = machine_.getTargetTransformInfo(*module_.getFunction(bind_symbol));
    const auto width = costs.getRegisterBitWidth(llvm::TargetTransformInfo::RGK_FixedWidthVector);
    KernelBuilder kernels(module_, source_.type, source_.op, width.getFixedValue());

    std::vector<llvm::Constant*> table;
    for (dsl::OpId id = 0; id < source_.ops.size(); ++id) {
        const dsl::Op::Kind kind = source_.ops[id].kind;
        const bool is_code = kind == dsl::Op::Kind::combine || kind == dsl::Op::Kind::copy;
        table.push_back(is_code ? static_cast<llvm::Constant*>(emit_step(id, kernels))
                                : llvm::ConstantPointerNull::get(ir_.getPtrTy()));
    }
    auto* type = llvm::ArrayType::get(ir_.getPtrTy(), table.size());
    define(steps_symbol, llvm::GlobalValue::ExternalLinkage, llvm::ConstantArray::get(type, table));
}

// Two loads and a call, with everything known folded in.
llvm::Function* ModuleBuilder::emit_step(dsl::OpId id, KernelBuilder& kernels) {
    const dsl::Op& op = source_.ops[id];
    const std::size_t operands = op.operands.size(), destinations = 1 + op.also.size();
    llvm::Function* step = declare(fmt::format("step_{}", id), llvm::Function::InternalLinkage,
                                   {ir_.getPtrTy(), ir_.getPtrTy()}, {"areas", "byte_offsets"});
    // There is nothing in a step to optimise, and there may be thousands: compiling them takes half the time
    // so.
    step->addFnAttr(llvm::Attribute::OptimizeNone);
    step->addFnAttr(llvm::Attribute::NoInline);
    llvm::Value* begin = load_offset(step, op.begin);
    llvm::Value* bytes = ir_.CreateSub(load_offset(step, op.end), begin, "bytes");
    if (std::max(operands, destinations) <= KernelBuilder::most_unrolled)
        ir_.CreateCall(kernels.unrolled(operands, destinations),
                       {step->getArg(0), area_ids(id), begin, bytes})
            ->setTailCall();
    else
        ir_.CreateCall(kernels.any(), {step->getArg(0), area_ids(id), begin, bytes, ir_.getInt64(operands),
                                       ir_.getInt64(destinations)})
            ->setTailCall();
    ir_.CreateRetVoid();
    return step;
}

llvm::Value* ModuleBuilder::load_offset(llvm::Function* step, dsl::BoundaryId boundary) {
    llvm::Value* slot = ir_.CreateConstInBoundsGEP1_64(ir_.getInt64Ty(), step->getArg(1), boundary);
    return ir_.CreateLoad(ir_.getInt64Ty(), slot, fmt::format("offset_{}", boundary));
}

// The destinations' and the operands', as the kernels take them.
llvm::Constant* ModuleBuilder::area_ids(dsl::OpId id) {
    const dsl::Op& op = source_.ops[id];
    std::vector<std::uint32_t> ids{op.area};
    ids.insert(ids.end(), op.also.begin(), op.also.end());
    ids.insert(ids.end(), op.operands.begin(), op.operands.end());
    return constant_list(ids, fmt::format("step_{}_areas", id));
}

llvm::Constant* ModuleBuilder::define(llvm::StringRef name, llvm::GlobalValue::LinkageTypes linkage,
                                      llvm::Constant* value) {
    auto* global = llvm::cast<llvm::GlobalVariable>(module_.getOrInsertGlobal(name, value->getType()));
    global->setConstant(true);
    global->setLinkage(linkage);
    global->setInitializer(value);
    return global;
}

}  // namespace

std::uint64_t wide_offset(std::uint64_t num, std::uint64_t den, std::uint64_t count) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(num) * count / den);
}

std::unique_ptr<llvm::Module> build_module(const CodeSource& source, llvm::TargetMachine& machine,
                                           llvm::LLVMContext& context) {
    auto module = std::make_unique<llvm::Module>("hocket", context);
    module->setTargetTriple(machine.getTargetTriple().str());
    module->setDataLayout(machine.createDataLayout());
    ModuleBuilder builder(source, machine, *module);
    builder.emit_bind();
    builder.emit_steps();
    std::string complaint;
    llvm::raw_string_ostream stream(complaint);
    if (llvm::verifyModule(*module, &stream))
        throw Error(Status::internal, "the generated code is malformed; please report it: " + complaint);
    return module;
}

}  // namespace hocket::jit
