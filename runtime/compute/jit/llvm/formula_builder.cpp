#include "runtime/compute/jit/llvm/formula_builder.hpp"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/IRBuilder.h>

#include <memory>

#include "runtime/compute/jit/llvm/elements.hpp"
#include "runtime/compute/jit/llvm/formula_emitter.hpp"

namespace hocket::jit {
namespace {

using llvm::Value;

enum Parameter : unsigned { to, elements, parameters, scalars, count };

class FormulaBuilder {
  public:
    FormulaBuilder(const FormulaShape& shape, const std::string& name, llvm::TargetMachine& machine,
                   llvm::Module& module)
        : shape_(shape), machine_(machine), module_(module), ir_(module.getContext()) {
        llvm::Type* const pointer = ir_.getPtrTy();
        function_ = llvm::Function::Create(
            llvm::FunctionType::get(ir_.getVoidTy(), {pointer, pointer, pointer, pointer, ir_.getInt64Ty()},
                                    false),
            llvm::Function::ExternalLinkage, name, module_);
        function_->setDoesNotThrow();
        for (const DataType type : shape.elements)
            operands_.push_back(elements_of(type, module.getContext()));
        target_ = elements_of(shape.target, module.getContext());
        worked_ = target_.worked_bytes == sizeof(double) ? ir_.getDoubleTy() : ir_.getFloatTy();
    }

    void run() {
        ir_.SetInsertPoint(block("entry"));
        for (std::size_t i = 0; i < operands_.size(); ++i)
            bases_.push_back(load_from(ir_.getPtrTy(), elements, i));
        const auto uniform = [&](const dsl::Formula::Item& item) -> Value* {
            const bool is_parameter = item.op == dsl::Formula::Op::parameter;
            Value* const value =
                load_from(ir_.getDoubleTy(), is_parameter ? parameters : scalars, item.index);
            return worked_->isFloatTy() ? ir_.CreateFPTrunc(value, worked_) : value;
        };
        emitter_ = std::make_unique<FormulaEmitter>(ir_, machine_, shape_.items, worked_, uniform);
        const unsigned bits = machine_.getTargetTransformInfo(*function_)
                                  .getRegisterBitWidth(llvm::TargetTransformInfo::RGK_FixedWidthVector)
                                  .getFixedValue();
        const std::size_t lanes = bits / (8 * target_.worked_bytes);
        Value* index = ir_.getInt64(0);
        if (lanes > 1) index = loop("vectors", index, lanes);
        loop("elements", index, 1);
        ir_.CreateRetVoid();
    }

  private:
    llvm::BasicBlock* block(const char* name) {
        return llvm::BasicBlock::Create(module_.getContext(), name, function_);
    }

    Value* load_from(llvm::Type* type, Parameter array, std::size_t i) {
        return ir_.CreateLoad(type, ir_.CreateConstInBoundsGEP1_64(type, function_->getArg(array),
                                                                   static_cast<std::uint64_t>(i)));
    }

    llvm::Type* of_lanes(llvm::Type* type, std::size_t lanes) const {
        return lanes == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
    }

    // Loads an operand's numbers, and converts them to the type for calculations.
    Value* load(std::size_t operand, Value* index, std::size_t lanes) {
        const Elements& own = operands_[operand];
        Value* const address = ir_.CreateInBoundsGEP(own.stored, bases_[operand], index);
        Value* value =
            ir_.CreateAlignedLoad(of_lanes(own.stored, lanes), address, llvm::Align(own.stored_bytes));
        value = own.widen(ir_, machine_, value);
        if (own.worked_bytes == target_.worked_bytes) return value;
        llvm::Type* const type = of_lanes(worked_, lanes);
        return own.worked_bytes < target_.worked_bytes ? ir_.CreateFPExt(value, type)
                                                       : ir_.CreateFPTrunc(value, type);
    }

    void work(Value* index, std::size_t lanes) {
        std::vector<Value*> values;
        for (std::size_t i = 0; i < operands_.size(); ++i) values.push_back(load(i, index, lanes));
        Value* const result = target_.narrow(ir_, machine_, emitter_->value(values, lanes));
        ir_.CreateAlignedStore(result, ir_.CreateInBoundsGEP(target_.stored, function_->getArg(to), index),
                               llvm::Align(target_.stored_bytes));
    }

    // Emits for (; index + lanes <= count; index += lanes); returns the index after the loop.
    Value* loop(const char* name, Value* begin, std::size_t lanes) {
        Value* const step = ir_.getInt64(lanes);
        Value* const limit = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::usub_sat, function_->getArg(count),
                                                       ir_.getInt64(lanes - 1));
        llvm::BasicBlock *before = ir_.GetInsertBlock(), *inside = block(name), *after = block("done");
        ir_.CreateCondBr(ir_.CreateICmpULT(begin, limit), inside, after);
        ir_.SetInsertPoint(inside);
        llvm::PHINode* const index = ir_.CreatePHI(ir_.getInt64Ty(), 2, "index");
        work(index, lanes);
        Value* const next = ir_.CreateNUWAdd(index, step);
        index->addIncoming(begin, before);
        index->addIncoming(next, ir_.GetInsertBlock());
        llvm::BasicBlock* const end = ir_.GetInsertBlock();
        ir_.CreateCondBr(ir_.CreateICmpULT(next, limit), inside, after);
        ir_.SetInsertPoint(after);
        llvm::PHINode* const result = ir_.CreatePHI(ir_.getInt64Ty(), 2, "at");
        result->addIncoming(begin, before);
        result->addIncoming(next, end);
        return result;
    }

    const FormulaShape& shape_;
    llvm::TargetMachine& machine_;
    llvm::Module& module_;
    llvm::IRBuilder<> ir_;
    llvm::Function* function_;
    std::vector<Elements> operands_;
    Elements target_{};
    llvm::Type* worked_ = nullptr;
    std::vector<Value*> bases_;
    std::unique_ptr<FormulaEmitter> emitter_;
};

}  // namespace

void build_formula(const FormulaShape& shape, const std::string& name, llvm::TargetMachine& machine,
                   llvm::Module& module) {
    FormulaBuilder(shape, name, machine, module).run();
}

}  // namespace hocket::jit
