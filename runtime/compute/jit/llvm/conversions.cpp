#include "runtime/compute/jit/llvm/conversions.hpp"

#include <llvm/MC/MCSubtargetInfo.h>

#include <cstdint>

namespace hocket::jit {
namespace {

using llvm::Value;

// Returns the type with this element and the value's number of lanes.
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
    Bits operator-(std::uint64_t other) const { return with(ir_.CreateSub(value_, constant(other))); }
    Bits operator&(std::uint64_t other) const { return with(ir_.CreateAnd(value_, constant(other))); }
    Bits operator|(Value* other) const { return with(ir_.CreateOr(value_, other)); }
    Bits operator|(std::uint64_t other) const { return *this | constant(other); }
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

// Returns true if the machine converts float16 itself, so that LLVM does not call a function for it. NVIDIA's
// devices do, but make one NaN of all.
bool has_float16(const llvm::TargetMachine& machine) {
    if (machine.getTargetTriple().isNVPTX()) return false;
    return machine.getTargetTriple().isAArch64() || machine.getMCSubtargetInfo()->checkFeatures("+f16c");
}

// As in runtime/base/half.hpp, but selects results where that code branches.
Value* float16_to_float(llvm::IRBuilder<>& ir, Value* value) {
    const Bits bits = widened_bits(ir, value), size = (bits & 0x7fff) << 13, sign = (bits & 0x8000) << 16;
    Value* units = ir.CreateUIToFP(bits & 0x7fff, like(bits, ir.getFloatTy()));
    Value* denormal = ir.CreateFMul(units, llvm::ConstantFP::get(units->getType(), 0x1p-24));
    const Bits infinite = size | 0x7f800000;
    Value* special = ir.CreateSelect(size > (0x1f << 23), infinite | 0x400000, infinite);
    Value* normal = ir.CreateSelect(size > (0x1f << 23) - 1, special, size + ((127 - 15) << 23));
    return float_of_bits(ir,
                         sign | ir.CreateSelect(size > (1 << 23) - 1, normal, bits_of_float(ir, denormal)));
}

Value* float_to_float16(llvm::IRBuilder<>& ir, Value* value) {
    constexpr std::uint64_t bias = (127 - 15) << 23, too_large = (15 + 1 + 127) << 23,
                            least_normal = (127 - 14) << 23, half = 0x3f000000;
    const Bits bits = bits_of_float(ir, value), size = bits & 0x7fffffff, sign = (bits >> 16) & 0x8000;
    Value* size_as_float = float_of_bits(ir, size);
    Value* around_half = ir.CreateFAdd(size_as_float, llvm::ConstantFP::get(size_as_float->getType(), 0.5));
    const Bits denormal = bits_of_float(ir, around_half) - half;
    const Bits normal = (size - bias + 0xfff + ((size >> 13) & 1)) >> 13;
    Value* finite = ir.CreateSelect(size > least_normal - 1, normal, denormal);
    Value* number = ir.CreateSelect(size > too_large - 1, size.constant(0x7c00), finite);
    Value* nan = ((size >> 13) & 0x3ff) | 0x7e00;
    return narrowed_bits(ir, sign | ir.CreateSelect(size > 0x7f800000, nan, number));
}

}  // namespace

Value* Conversion<Float16, float>::widen(llvm::IRBuilder<>& ir, const llvm::TargetMachine& machine,
                                         Value* value) {
    if (!has_float16(machine)) return float16_to_float(ir, value);
    return ir.CreateFPExt(ir.CreateBitCast(value, like(value, ir.getHalfTy())), like(value, ir.getFloatTy()));
}

Value* Conversion<Float16, float>::narrow(llvm::IRBuilder<>& ir, const llvm::TargetMachine& machine,
                                          Value* value) {
    if (!has_float16(machine)) return float_to_float16(ir, value);
    return ir.CreateBitCast(ir.CreateFPTrunc(value, like(value, ir.getHalfTy())),
                            like(value, ir.getInt16Ty()));
}

Value* Conversion<BFloat16, float>::widen(llvm::IRBuilder<>& ir, const llvm::TargetMachine&, Value* value) {
    return float_of_bits(ir, widened_bits(ir, value) << 16);
}

// As in runtime/base/half.hpp, because the machines' own instruction treats denormal numbers as zero.
Value* Conversion<BFloat16, float>::narrow(llvm::IRBuilder<>& ir, const llvm::TargetMachine&, Value* value) {
    const Bits bits = bits_of_float(ir, value), upper = bits >> 16;
    const Bits rounded = (bits + 0x7fff + (upper & 1)) >> 16;
    return narrowed_bits(ir, ir.CreateSelect((bits & 0x7fffffff) > 0x7f800000, upper | 0x40, rounded));
}

}  // namespace hocket::jit
