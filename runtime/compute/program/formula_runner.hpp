// A formula for certain types of operands and result: generated code, or the loop of formula_loop.hpp. Both
// give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dsl/graph/formula.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/jit/interface/formula_shape.hpp"
#include "runtime/compute/program/formula_loop.hpp"

namespace hocket::compute {

// Immutable, and so thread-safe.
class FormulaRunner {
  public:
    // elements: the types of the formula's operands, by index. target: that of run()'s results. compiled: by
    // generated code, if there is a compiler; then hocket::Error is thrown as in runtime/compute/jit. The
    // formula must outlive it.
    FormulaRunner(const dsl::Formula& formula, const std::vector<DataType>& elements, DataType target,
                  bool compiled);

    // As run_formula() and sum_formula().
    void run(const FormulaInputs& inputs, std::size_t count, std::byte* to) const;
    double sum(const FormulaInputs& inputs, std::size_t count) const;

  private:
    template <typename T>
    double sum_as(const FormulaInputs& inputs, std::size_t count) const;

    const dsl::Formula& formula_;
    DataType target_;
    jit::FormulaCode code_ = nullptr;  // null: the loop
};

}  // namespace hocket::compute
