// The rule by which a server computes new weights from the old ones and the sum of the workers' gradients: an
// update of the schedule language, ready to run on elements of one type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dsl/graph/update.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/program/formula_runner.hpp"

namespace hocket::params {

// Immutable, and therefore thread-safe; cheap to copy. Results have the same bits with and without generated
// code.
class UpdateRule {
  public:
    // text: "momentum(0.1)", "my.sched:momentum(0.1)", or statements, "w = w - 0.1 * g / workers".
    // search_path: folders of .sched files. type: of weights and gradients. compiled: use generated code if
    // there is a compiler.
    //
    // Throws Error(schedule) for an error in the text, Error(not_found) and Error(io) as Library does, and
    // Error(invalid_argument) if there is no such rule for the type: integers support only addition, as in
    // `sum`.
    static UpdateRule find(const std::string& text, const std::vector<std::string>& search_path,
                           DataType type, bool compiled);

    // The name for messages, such as "sgd(0.1)".
    const std::string& name() const { return update_->name; }
    // Equal in two processes exactly if both compute the same: the statements, with arguments in place of
    // parameters.
    const std::string& text() const { return text_; }

    // Returns the number of state buffers of state_type(); each has one number per element, 0 at first.
    std::size_t states() const { return update_->count(dsl::ExtraBuffer::Kind::state); }
    DataType state_type() const;
    // Returns true if the update adds up over a tensor's elements, so that no tensor may be cut.
    bool needs_whole_tensors() const { return update_->count(dsl::ExtraBuffer::Kind::sums) > 0; }

    struct Round {
        std::uint32_t workers;  // the number that took part; at least 1
        std::uint64_t round;    // counted from 1
    };
    struct Buffers {
        const std::byte* weights;
        std::span<const std::byte* const> states;
    };
    struct MutableBuffers {
        std::byte* weights;
        std::span<std::byte* const> states;
    };
    // Applies the round to `count` elements. g: the sum of the gradients, of the weights' type. tensors: how
    // many of the elements, in order, each tensor has; only read if needs_whole_tensors(). A buffer of
    // `after` may be the same as the one of `before`, at no extra cost; otherwise no buffers may overlap. All
    // of `after` is written.
    void apply(const Buffers& before, const std::byte* g, std::size_t count,
               std::span<const std::uint64_t> tensors, Round round, const MutableBuffers& after) const;

  private:
    UpdateRule(dsl::Update update, DataType type, bool compiled);
    class Pass;

    std::shared_ptr<const dsl::Update> update_;
    std::string text_;
    DataType type_;
    bool is_sum_;
    std::vector<compute::FormulaRunner> runners_;  // by computation; empty for a sum
};

}  // namespace hocket::params
