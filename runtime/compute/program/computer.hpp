// Executes the computations of a rank's program: formulas, selections and sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "dsl/projection/rank_program.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/kernels/selection.hpp"
#include "runtime/compute/program/arguments.hpp"
#include "runtime/compute/program/extra_layout.hpp"
#include "runtime/compute/program/formula_runner.hpp"
#include "runtime/compute/program/reduction.hpp"
#include "runtime/compute/program/sparse_terms.hpp"

namespace hocket::compute {

struct ComputeOptions {
    std::vector<std::uint64_t> tensors = {};  // the elements of each tensor, if x is a list of tensors
    unsigned threads = 1;                     // for each selection
    bool compiled = false;                    // true: formulas run as generated code
};

// Immutable, and therefore thread-safe.
class Computer {
  public:
    // The program must outlive it. Throws Error (invalid_argument) if the schedule cannot compute with this
    // type, or if its selections would be combined with an operator other than a sum.
    Computer(const dsl::RankProgram& program, DataType type, const Reduction& op,
             const ComputeOptions& options);
    Computer(const Computer&) = delete;
    // Returns true if the program adds up selections or values in a narrower format. It divides no sums: an
    // average is the sum of inputs that were multiplied by 1 / ranks.
    static bool adds_up_terms(const dsl::RankProgram& program);
    // Throws like the constructor.
    static void check(const dsl::RankProgram& program, DataType type, const Reduction& op);

    std::uint64_t tensors() const { return ends_.empty() ? 1 : ends_.size(); }
    const std::vector<std::uint64_t>& tensor_ends() const { return ends_; }
    // Throws Error (invalid_argument) if the tensors' elements don't add up to `count`, or if a selection
    // would be from more elements than an index can distinguish.
    void check_count(std::uint64_t count) const;

    struct Start {
        const std::uint64_t* byte_offsets;  // by boundary
        const ExtraLayout& extras;
        std::byte* const* areas;  // virtual bases
        const Arguments& arguments;
        std::uint64_t number;  // the number of this start of the plan; it decides which of the elements that
                               // tie are selected
    };
    // Runs an operation of kind compute, whose region must not be empty. Throws std::bad_alloc.
    void run(dsl::OpId op, const Start& start) const;

  private:
    // Error feedback in one pass over x and e: `e = e + x`, `let s = mstopk(e, density)`, `e = e - dense(s)`.
    // The same with packed values, for `keeping e`.
    struct Feedback {
        std::size_t x, e;  // indices into the first operation's elements
        dsl::OpId select;  // or packs
    };

    // Elements that are calculated at a time, in float32: they stay in the processor's cache.
    static constexpr std::uint64_t strip_elements = 1 << 14;

    void find_feedback();
    bool is_feedback(dsl::OpId add, dsl::OpId select, dsl::OpId subtract, Feedback& found) const;
    std::byte* at(const dsl::MessagePart& part, const Start& start) const;
    dsl::PieceOf piece_of(const dsl::MessagePart& part, std::int64_t buffer) const;
    void assign(const dsl::Op& op, const Start& start) const;
    std::vector<SparseTerm> sparse_terms(const dsl::Op& op, const Start& start, std::uint64_t first) const;
    struct Target {
        std::byte* begin;
        std::uint64_t first, count;  // elements of x
    };
    void assign_by_strips(const dsl::Op& op, const Start& start, std::vector<SparseTerm>& terms,
                          const Target& target) const;
    struct Selecting {
        SelectedPiece piece;
        kernels::TopkOptions options;
    };
    Selecting selecting(const dsl::Op& op, const Start& start) const;
    void select(const dsl::Op& op, const Start& start) const;
    // packed_values.cpp
    template <typename Call>
    void for_strips_to_pack(const dsl::Op& pack, const Start& start, Call call) const;
    const dsl::WireFormat& format_of(const dsl::Op& pack) const;
    void pack(const dsl::Op& op, const Start& start) const;
    void pack_with_feedback(const dsl::Op& add, const Feedback& feedback, const Start& start) const;
    void assign_packed(const dsl::Op& op, const Start& start, const Target& target, bool stays) const;
    struct PackedTerm;
    std::vector<PackedTerm> packed_terms(const dsl::Op& op, const Start& start, std::uint64_t first) const;
    void total(const dsl::Op& op, const Start& start) const;
    void select_with_feedback(const dsl::Op& op, const Feedback& feedback, const Start& start) const;

    template <typename Call>
    void for_tensors(const dsl::Op& op, const Start& start, std::uint64_t first, std::uint64_t count,
                     std::uint64_t most, Call call) const;

    const dsl::RankProgram& program_;
    DataType type_;
    std::vector<std::uint64_t> ends_;  // of the tensors, in elements; empty: x is one tensor
    unsigned threads_;
    std::vector<FormulaRunner> formulas_;     // by computation
    std::optional<FormulaRunner> rounding_;   // from the working type
    std::map<dsl::OpId, Feedback> feedback_;  // by the first operation
    std::vector<bool> is_done_before_;  // by operation: true if the first operation of a feedback does it
};

}  // namespace hocket::compute
