// The operator that a plan combines with: one of runtime/base/types.hpp, or one that a schedule file defines.
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
    // `defined` must not be null.
    explicit Reduction(std::shared_ptr<const dsl::Operator> defined) : defined_(std::move(defined)) {}

    // Returns null for a built-in operator; only then may built_in() be used.
    const dsl::Operator* defined() const { return defined_.get(); }
    ReduceOp built_in() const { return op_; }

    std::string_view name() const { return defined_ ? defined_->name : name_of(op_); }
    // An operator of a schedule file is calculated like a formula, in floating-point numbers.
    bool supports(DataType type) const {
        return defined_ ? row_of(type).kind == kind::floating : hocket::supports(op_, type);
    }
    bool multiplies() const { return !defined_ && row_of(op_).multiplies; }
    // Returns true if it combines by addition, whatever it does at the start and the end.
    bool is_sum() const { return !defined_ && row_of(op_).combination == Combination::sum; }
    std::uint32_t divisor(std::uint32_t ranks) const { return defined_ ? 1 : divisor_of(op_, ranks); }
    // Returns a number that is equal on two ranks exactly if both calculate the same.
    std::uint64_t identity() const;

    // Like kernels::combine(), with the same rules: calculates in the type's Worked type, and rounds once.
    void combine(DataType type, std::span<std::byte* const> destinations,
                 std::span<const std::byte* const> operands, std::size_t count, std::uint32_t divisor) const;

    friend bool operator==(const Reduction& a, const Reduction& b) { return (a <=> b) == 0; }
    friend std::partial_ordering operator<=>(const Reduction& a, const Reduction& b);

  private:
    ReduceOp op_ = all_ops[0];
    std::shared_ptr<const dsl::Operator> defined_;
};

}  // namespace hocket::compute
