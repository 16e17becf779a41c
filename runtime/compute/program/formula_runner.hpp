// Runs a formula for fixed types of operands and result, by generated code or by the loop of
// formula_loop.hpp. Both give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dsl/graph/computation.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/jit/interface/formula_shape.hpp"
#include "runtime/compute/program/formula_loop.hpp"

namespace hocket::compute {

// Immutable, and therefore thread-safe.
class FormulaRunner {
  public:
    // elements: the types of the formula's operands, by index. target: the type of run()'s results. compiled:
    // use generated code, if there is a compiler; hocket::Error is then thrown as in runtime/compute/jit. The
    // formula must outlive it.
    FormulaRunner(const dsl::Formula& formula, const std::vector<DataType>& elements, DataType target,
                  bool compiled);

    // Like run_formula() and fold_formula().
    void run(const FormulaInputs& inputs, std::size_t count, std::byte* to) const;
    double fold(dsl::Fold fold, const FormulaInputs& inputs, std::size_t count) const;

  private:
    template <typename T>
    double fold_as(dsl::Fold fold, const FormulaInputs& inputs, std::size_t count) const;

    const dsl::Formula& formula_;
    DataType target_;
    jit::FormulaCode code_ = nullptr;  // null: runs the loop
};

// Returns a runner for each computation, where x has this type. run() gives numbers of the working type if
// sparse terms follow. Throws like FormulaRunner. The computations must outlive the runners.
std::vector<FormulaRunner> runners_of(const std::vector<dsl::Computation>& computations, DataType type,
                                      bool compiled);

}  // namespace hocket::compute
