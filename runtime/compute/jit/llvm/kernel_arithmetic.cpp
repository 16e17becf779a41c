#include "runtime/compute/jit/llvm/kernel_arithmetic.hpp"

namespace hocket::jit {
namespace {

std::size_t lanes_of(const llvm::Value* value) {
    const auto* const vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
    return vector ? vector->getNumElements() : 1;
}

}  // namespace

KernelArithmetic::KernelArithmetic(const KernelShape& shape, const Elements& elements, llvm::IRBuilder<>& ir,
                                   llvm::TargetMachine& machine, llvm::Value* operand_number,
                                   llvm::Value* factor)
    : shape_(shape),
      elements_(elements),
      ir_(ir),
      machine_(machine),
      operand_number_(operand_number),
      factor_(factor) {
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
}

KernelArithmetic::Values KernelArithmetic::combined(Values a, const Values& b) {
    for (std::size_t k = 0; k < a.size(); ++k) a[k] = combined(a[k], b[k]);
    return a;
}

// Gives the same bits as kernels/cpu/apply.hpp, because no fast-math flag is used.
llvm::Value* KernelArithmetic::combined(llvm::Value* a, llvm::Value* b) {
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
llvm::Value* KernelArithmetic::choose(llvm::Value* a_wins, llvm::Value* a, llvm::Value* b, const char* name) {
    llvm::Value* chosen = ir_.CreateSelect(a_wins, a, b, name);
    if (!a->getType()->isFPOrFPVectorTy()) return chosen;
    return ir_.CreateSelect(ir_.CreateFCmpUNO(a, a), a, chosen, name);
}

// Returns the values in the type in memory.
KernelArithmetic::Values KernelArithmetic::finished(Values values) {
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

// The product is rounded when it is narrowed; integers wrap around.
llvm::Value* KernelArithmetic::multiplied(llvm::Value* value) {
    llvm::Type *const type = value->getType(), *const scalar = type->getScalarType();
    llvm::Value* by = factor_;
    if (!scalar->isFloatingPointTy())
        by = elements_.is_signed ? ir_.CreateFPToSI(by, scalar) : ir_.CreateFPToUI(by, scalar);
    else if (scalar != by->getType())
        by = ir_.CreateFPTrunc(by, scalar);
    if (const std::size_t lanes = lanes_of(value); lanes > 1)
        by = ir_.CreateVectorSplat(static_cast<unsigned>(lanes), by);
    return scalar->isFloatingPointTy() ? ir_.CreateFMul(value, by, "product")
                                       : ir_.CreateMul(value, by, "product");
}

// Divides; integers are rounded towards 0.
llvm::Value* KernelArithmetic::divided(llvm::Value* value) {
    llvm::Type* type = value->getType();
    if (shape_.divisor == KernelShape::divisor_by_call) {
        llvm::Value* const one = ir_.CreateUIToFP(operand_number_, type->getScalarType(), "divisor");
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

}  // namespace hocket::jit
