#include "runtime/compute/jit/llvm/formula_emitter.hpp"

#include <algorithm>

#include "runtime/compute/jit/llvm/conversions.hpp"

namespace hocket::jit {
namespace {

using Op = dsl::Formula::Op;
using llvm::Value;

}  // namespace

FormulaEmitter::FormulaEmitter(llvm::IRBuilder<>& ir, const llvm::TargetMachine& machine,
                               std::span<const dsl::Formula::Item> items, llvm::Type* worked,
                               const std::function<Value*(const dsl::Formula::Item&)>& uniform)
    : ir_(ir), machine_(machine), items_(items) {
    std::vector<Value*> stack;
    for (const dsl::Formula::Item& item : items) {
        const std::size_t n = operands_of(item.op);
        Value* value = nullptr;
        if (item.op == Op::number)
            value = llvm::ConstantFP::get(worked, worked->isFloatTy()
                                                      ? static_cast<double>(static_cast<float>(item.number))
                                                      : item.number);
        else if (item.op == Op::parameter || item.op == Op::scalar)
            value = uniform(item);
        else if (n > 0 && std::all_of(stack.end() - static_cast<std::ptrdiff_t>(n), stack.end(),
                                      [](const Value* operand) { return operand != nullptr; }))
            value = calculate(item, &stack[stack.size() - n]);
        stack.resize(stack.size() - n);
        stack.push_back(value);
        uniform_.push_back(value);
    }
}

Value* FormulaEmitter::spread(Value* value, std::size_t lanes) {
    return lanes == 1 ? value : ir_.CreateVectorSplat(static_cast<unsigned>(lanes), value);
}

Value* FormulaEmitter::value(const std::vector<Value*>& elements, std::size_t lanes) {
    std::vector<Value*> stack;
    for (std::size_t i = 0; i < items_.size(); ++i) {
        const dsl::Formula::Item& item = items_[i];
        const std::size_t n = operands_of(item.op);
        Value* value = uniform_[i]              ? spread(uniform_[i], lanes)
                       : item.op == Op::element ? elements[item.index]
                                                : calculate(item, &stack[stack.size() - n]);
        stack.resize(stack.size() - n);
        stack.push_back(value);
    }
    return stack.back();
}

// Returns 1 or 0, as an integer.
Value* FormulaEmitter::truth(Value* condition) {
    return ir_.CreateZExt(condition, condition->getType()->getWithNewType(ir_.getInt32Ty()));
}

Value* FormulaEmitter::is_true(Value* value) {
    return ir_.CreateFCmpUNE(value, llvm::Constant::getNullValue(value->getType()));
}

// As in kernels/cpu/apply.hpp: NaN if one of the two is.
Value* FormulaEmitter::chosen(bool larger, Value* a, Value* b) {
    Value* const wins = larger ? ir_.CreateFCmpOGT(a, b) : ir_.CreateFCmpOLT(a, b);
    return ir_.CreateSelect(ir_.CreateFCmpUNO(a, a), a, ir_.CreateSelect(wins, a, b));
}

Value* FormulaEmitter::rounded(Op op, Value* value) {
    llvm::Type* const type = value->getType();
    llvm::Type* const single = type->getWithNewType(ir_.getFloatTy());
    Value* result = type == single ? value : ir_.CreateFPTrunc(value, single);
    if (op == Op::to_float16)
        result = Conversion<Float16, float>::widen(ir_, machine_,
                                                   Conversion<Float16, float>::narrow(ir_, machine_, result));
    else
        result = Conversion<BFloat16, float>::widen(
            ir_, machine_, Conversion<BFloat16, float>::narrow(ir_, machine_, result));
    return type == single ? result : ir_.CreateFPExt(result, type);
}

Value* FormulaEmitter::calculate(const dsl::Formula::Item& item, Value* const* operands) {
    Value* const a = operands[0];
    Value* const b = operands_of(item.op) > 1 ? operands[1] : nullptr;
    const auto number = [&](Value* condition) { return ir_.CreateUIToFP(truth(condition), a->getType()); };
    switch (item.op) {
        case Op::number:
        case Op::parameter:
        case Op::scalar:
        case Op::element:
            break;
        case Op::negate:
            return ir_.CreateFNeg(a);
        case Op::logical_not:
            return number(ir_.CreateFCmpOEQ(a, llvm::Constant::getNullValue(a->getType())));
        case Op::absolute:
            return ir_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
        case Op::square_root:
            return ir_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a);
        case Op::to_float16:
        case Op::to_bfloat16:
            return rounded(item.op, a);
        case Op::add:
            return ir_.CreateFAdd(a, b);
        case Op::subtract:
            return ir_.CreateFSub(a, b);
        case Op::multiply:
            return ir_.CreateFMul(a, b);
        case Op::divide:
            return ir_.CreateFDiv(a, b);
        case Op::minimum:
            return chosen(false, a, b);
        case Op::maximum:
            return chosen(true, a, b);
        case Op::equal:
            return number(ir_.CreateFCmpOEQ(a, b));
        case Op::not_equal:
            return number(ir_.CreateFCmpUNE(a, b));
        case Op::less:
            return number(ir_.CreateFCmpOLT(a, b));
        case Op::less_equal:
            return number(ir_.CreateFCmpOLE(a, b));
        case Op::greater:
            return number(ir_.CreateFCmpOGT(a, b));
        case Op::greater_equal:
            return number(ir_.CreateFCmpOGE(a, b));
        case Op::logical_and:
            return number(ir_.CreateAnd(is_true(a), is_true(b)));
        case Op::logical_or:
            return number(ir_.CreateOr(is_true(a), is_true(b)));
        case Op::select:
            return ir_.CreateSelect(is_true(a), b, operands[2]);
    }
    return nullptr;
}

}  // namespace hocket::jit
