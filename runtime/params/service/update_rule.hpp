// What a server makes of weights and of the sum of the workers' gradients: an update of the schedule
// language, ready to run on elements of one type.
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

// Immutable, and so thread-safe; cheap to copy. Results have the same bits with and without generated code.
class UpdateRule {
  public:
    // text: "momentum(0.1)", "my.sched:momentum(0.1)", or statements, "w = w - 0.1 * g / workers".
    // search_path: folders of .sched files. type: of weights and gradients. compiled: by generated code, if
    // there is a compiler.
    //
    // Throws Error(schedule) for what is wrong with the text, Error(not_found) and Error(io) as Library does,
    // Error(invalid_argument) if there is no such rule for the type: integers can be added, as `sum` does,
    // and nothing else.
    static UpdateRule find(const std::string& text, const std::vector<std::string>& search_path,
                           DataType type, bool compiled);

    // "sgd(0.1)", for messages.
    const std::string& name() const { return update_->name; }
    // The same in two processes exactly if both calculate the same: the statements, with arguments for
    // parameters.
    const std::string& text() const { return text_; }

    // For each element a number in each of so many buffers of state_type(), 0 at first.
    std::size_t states() const { return update_->states.size(); }
    DataType state_type() const;
    // It adds up over tensors: none may be cut.
    bool needs_whole_tensors() const { return !update_->totals.empty(); }

    struct Round {
        std::uint32_t workers;  // that took part; at least 1
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
    // Does the round for `count` elements. g: the sum of the gradients, of the type of the weights. tensors:
    // how many of the elements, in order, are each tensor's; only read if needs_whole_tensors(). A buffer of
    // `after` may be exactly the same of `before`, which costs the same; otherwise none may overlap another.
    // All of `after` is written.
    void apply(const Buffers& before, const std::byte* g, std::size_t count,
               std::span<const std::uint64_t> tensors, Round round, const MutableBuffers& after) const;

  private:
    UpdateRule(dsl::Update update, DataType type, bool compiled);
    class Pass;

    std::shared_ptr<const dsl::Update> update_;
    std::string text_;
    DataType type_;
    bool is_sum_;
    std::vector<compute::FormulaRunner> runners_;  // by step; none if it is a sum
};

}  // namespace hocket::params
