// Carries out what a rank's program computes: formulas, selections and sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "dsl/projection/rank_program.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/program/arguments.hpp"
#include "runtime/compute/program/extra_layout.hpp"
#include "runtime/compute/program/formula_runner.hpp"
#include "runtime/compute/program/reduction.hpp"
#include "runtime/compute/program/sparse_terms.hpp"

namespace hocket::compute {

struct ComputeOptions {
    std::vector<std::uint64_t> tensors = {};  // the elements of each, if x is a list of tensors
    unsigned threads = 1;                     // for a selection
    bool compiled = false;                    // formulas by generated code
};

// Immutable, and so thread-safe.
class Computer {
  public:
    // The program must outlive it. Throws Error (invalid_argument) if the schedule does not compute with this
    // type, or if its selections would be combined with another operator than a sum.
    Computer(const dsl::RankProgram& program, DataType type, const Reduction& op, ComputeOptions options);
    Computer(const Computer&) = delete;
    // Throws as the constructor does.
    static void check(const dsl::RankProgram& program, DataType type, const Reduction& op);

    std::uint64_t tensors() const { return ends_.empty() ? 1 : ends_.size(); }
    const std::vector<std::uint64_t>& tensor_ends() const { return ends_; }
    // Throws Error (invalid_argument) if the tensors are not all of x, or if more elements would be selected
    // from than an index can tell apart.
    void check_count(std::uint64_t count) const;

    struct Start {
        const std::uint64_t* byte_offsets;  // by boundary
        const ExtraLayout& extras;
        std::byte* const* areas;  // virtual bases
        const Arguments& arguments;
        std::uint64_t number;  // of this plan's starts: decides which of those that tie are selected
    };
    // An operation of kind compute whose region is not empty. Throws std::bad_alloc.
    void run(dsl::OpId op, const Start& start) const;

  private:
    // `e = e + x`, `let s = mstopk(e, density)`, `e = e - dense(s)`: error feedback, in one pass over x and
    // e.
    struct Feedback {
        std::size_t x, e;  // which of the first one's elements
        dsl::OpId select;
    };

    void find_feedback();
    bool is_feedback(dsl::OpId add, dsl::OpId select, dsl::OpId subtract, Feedback& found) const;
    DataType type_of(std::int64_t buffer) const;
    std::byte* at(const dsl::MessagePart& part, const Start& start) const;
    void assign(const dsl::Op& op, const Start& start) const;
    std::vector<SparseTerm> sparse_terms(const dsl::Op& op, const Start& start, std::uint64_t first) const;
    struct Target {
        std::byte* begin;
        std::uint64_t first, count;  // elements of x
    };
    void assign_by_strips(const dsl::Op& op, const Start& start, std::vector<SparseTerm>& terms,
                          const Target& target) const;
    void select(const dsl::Op& op, const Start& start) const;
    void total(const dsl::Op& op, const Start& start) const;
    void select_with_feedback(const dsl::Op& op, const Feedback& feedback, const Start& start) const;

    template <typename Call>
    void for_tensors(const dsl::Op& op, const Start& start, std::uint64_t first, std::uint64_t count,
                     std::uint64_t most, Call call) const;

    const dsl::RankProgram& program_;
    DataType type_;
    std::vector<std::uint64_t> ends_;  // of the tensors, in elements; empty: one tensor
    unsigned threads_;
    std::vector<FormulaRunner> formulas_;    // by computation; where sparse terms follow, in the working type
    std::optional<FormulaRunner> rounding_;  // from the working type
    std::map<dsl::OpId, Feedback> feedback_;  // by the first operation
    std::vector<bool> is_done_before_;        // by operation: the first one of a feedback does it
};

}  // namespace hocket::compute
