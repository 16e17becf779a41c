#include "runtime/jit/conversions.hpp"

#include <cstdint>

namespace hocket::jit {
namespace {

using llvm::Value;

// The type with these elements, of as many lanes as the value has.
llvm::Type* like(Value* value, llvm::Type* element) {
    return value->getType()->getWithNewType(element);
}

// Integer arithmetic on all lanes of a value.
class Bits {
  public:
    Bits(llvm::IRBuilder<>& ir, Value* value) : ir_(ir), value_(value) {}

    operator Value*() const { return value_; }
    Bits with(Value* value) const { return {ir_, value}; }
    Value* constant(std::uint64_t bits) const { return llvm::ConstantInt::get(value_->getType(), bits); }

    Bits operator+(Value* other) const { return with(ir_.CreateAdd(value_, other)); }
    Bits operator+(std::uint64_t other) const { return *this + constant(other); }
    Bits operator&(std::uint64_t other) const { return with(ir_.CreateAnd(value_, constant(other))); }
    Bits operator|(std::uint64_t other) const { return with(ir_.CreateOr(value_, constant(other))); }
    Bits operator<<(std::uint64_t by) const { return with(ir_.CreateShl(value_, constant(by))); }
    Bits operator>>(std::uint64_t by) const { return with(ir_.CreateLShr(value_, constant(by))); }

    Value* operator>(std::uint64_t other) const { return ir_.CreateICmpUGT(value_, constant(other)); }

  private:
    llvm::IRBuilder<>& ir_;
    Value* value_;
};

Bits widened_bits(llvm::IRBuilder<>& ir, Value* value) {
    return {ir, ir.CreateZExt(value, like(value, ir.getInt32Ty()))};
}

Bits bits_of_float(llvm::IRBuilder<>& ir, Value* value) {
    return {ir, ir.CreateBitCast(value, like(value, ir.getInt32Ty()))};
}

Value* float_of_bits(llvm::IRBuilder<>& ir, Value* bits) {
    return ir.CreateBitCast(bits, like(bits, ir.getFloatTy()));
}

Value* narrowed_bits(llvm::IRBuilder<>& ir, Value* bits) {
    return ir.CreateTrunc(bits, like(bits, ir.getInt16Ty()));
}

}  // namespace

Value* Conversion<BFloat16, float>::widen(llvm::IRBuilder<>& ir, const llvm::TargetMachine&, Value* value) {
    return float_of_bits(ir, widened_bits(ir, value) << 16);
}

// As in runtime/half.hpp. The machines' own instruction takes denormal numbers for zero.
Value* Conversion<BFloat16, float>::narrow(llvm::IRBuilder<>& ir, const llvm::TargetMachine&, Value* value) {
    const Bits bits = bits_of_float(ir, value), upper = bits >> 16;
    const Bits rounded = (bits + 0x7fff + (upper & 1)) >> 16;
    return narrowed_bits(ir, ir.CreateSelect((bits & 0x7fffffff) > 0x7f800000, upper | 0x40, rounded));
}

}  // namespace hocket::jit
