// What a plan combines with: an operator of runtime/base/types.hpp, or one that a schedule file defines.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "dsl/graph/operator.hpp"
#include "runtime/base/types.hpp"

namespace hocket::compute {

// A value; cheap to copy.
class Reduction {
  public:
    Reduction(ReduceOp op) : op_(op) {}
    // Not null.
    explicit Reduction(std::shared_ptr<const dsl::Operator> defined) : defined_(std::move(defined)) {}

    // Null: built in. Then, and only then, built_in() is what it is.
    const dsl::Operator* defined() const { return defined_.get(); }
    ReduceOp built_in() const { return op_; }

    std::string_view name() const { return defined_ ? defined_->name : name_of(op_); }
    // An operator of a schedule file is calculated as formulas are, in floating-point numbers.
    bool supports(DataType type) const {
        return defined_ ? row_of(type).kind == kind::floating : hocket::supports(op_, type);
    }
    bool multiplies() const { return !defined_ && row_of(op_).multiplies; }
    // Adds up, whatever it does before and after.
    bool is_sum() const { return !defined_ && row_of(op_).combination == Combination::sum; }
    std::uint32_t divisor(std::uint32_t ranks) const { return defined_ ? 1 : divisor_of(op_, ranks); }
    // The same on two ranks exactly if both calculate the same.
    std::uint64_t identity() const;

    // As kernels::combine(), and by the same rules: calculated in the type's Worked type, and rounded once.
    void combine(DataType type, std::span<std::byte* const> destinations,
                 std::span<const std::byte* const> operands, std::size_t count, std::uint32_t divisor) const;

    friend bool operator==(const Reduction& a, const Reduction& b) { return (a <=> b) == 0; }
    friend std::partial_ordering operator<=>(const Reduction& a, const Reduction& b);

  private:
    ReduceOp op_ = all_ops[0];
    std::shared_ptr<const dsl::Operator> defined_;
};

}  // namespace hocket::compute
