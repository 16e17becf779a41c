#include "runtime/params/service/update_rule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "dsl/elaboration/find.hpp"
#include "runtime/base/error.hpp"
#include "runtime/compute/kernels/cpu/combine.hpp"
#include "runtime/compute/program/dsl_errors.hpp"
#include "runtime/compute/program/extra_layout.hpp"

namespace hocket::params {
namespace {

using dsl::Update;

// All statements run on this many elements before the next ones, so that shared data stays in the cache.
constexpr std::size_t elements_a_turn = 4096;

// Returns true for w = w + g, under any names.
bool adds_only(const Update& update) {
    return update.computations.size() == 1 && update.computations.front().formula.is_sum_of_two();
}

// Returns the values of the parameters in the update's formulas.
std::vector<double> parameters_of(const Update& update, UpdateRule::Round round) {
    std::vector<double> parameters = {static_cast<double>(round.workers), static_cast<double>(round.round)};
    const auto value_of = [&](const dsl::Formula& formula) {
        double value = 0;
        compute::run_formula(formula, {{}, parameters, {}}, 1, DataType::float64,
                             reinterpret_cast<std::byte*>(&value));
        return value;
    };
    for (const Update::Number& number : update.numbers) {
        const double value = value_of(number.value);
        parameters.push_back(number.exponent ? std::pow(value, value_of(*number.exponent)) : value);
    }
    return parameters;
}

}  // namespace

UpdateRule UpdateRule::find(const std::string& text, const std::vector<std::string>& search_path,
                            DataType type, bool compiled) {
    Update update = in_dsl([&] {
        dsl::Library library(search_path);
        return dsl::find_update(library, text);
    });
    const bool is_right =
        adds_only(update) ? supports(ReduceOp::sum, type) : row_of(type).kind == kind::floating;
    if (!is_right)
        throw Error(Status::invalid_argument,
                    fmt::format("the update {} is calculated in floating-point numbers, but the weights are "
                                "{}\n  hint: integers can be added, with the update sum",
                                update.name, name_of(type)));
    return UpdateRule(std::move(update), type, compiled);
}

UpdateRule::UpdateRule(Update update, DataType type, bool compiled)
    : update_(std::make_shared<const Update>(std::move(update))),
      text_(text_of(*update_)),
      type_(type),
      is_sum_(adds_only(*update_)) {
    if (!is_sum_) runners_ = compute::runners_of(update_->computations, type, compiled);
}

DataType UpdateRule::state_type() const {
    return compute::working_type(type_);
}

// One call of apply().
class UpdateRule::Pass {
  public:
    Pass(const UpdateRule& rule, const Buffers& before, const std::byte* g, Round round,
         const MutableBuffers& after)
        : rule_(rule),
          parameters_(parameters_of(*rule.update_, round)),
          buffers_(static_cast<std::size_t>(dsl::extra_begin(rule.update_->extras.size()))) {
        at(Update::weights) = {before.weights, after.weights};
        at(Update::gradients) = {g, nullptr};
        std::size_t state = 0;
        for (const dsl::ExtraBuffer& extra : rule.update_->extras)
            if (extra.kind == dsl::ExtraBuffer::Kind::state) {
                at(extra.begin) = {before.states[state], after.states[state]};
                ++state;
            }
    }

    // Runs all statements for n elements.
    void run(std::size_t first, std::size_t n) {
        for (Buffer& buffer : buffers_) buffer.now = buffer.before;
        for (std::size_t i = 0; i < rule_.runners_.size(); ++i) {
            const dsl::Computation& computation = rule_.update_->computations[i];
            const compute::FormulaInputs inputs = inputs_of(computation, first);
            Buffer& target = at(computation.target);
            if (computation.kind == dsl::Computation::Kind::total) {
                const dsl::Fold fold = dsl::extra_at(rule_.update_->extras, computation.target)->fold;
                target.folded = rule_.runners_[i].fold(fold, inputs, n);
                continue;
            }
            const DataType type = compute::type_of(computation.target, rule_.type_);
            rule_.runners_[i].run(inputs, n, target.after + first * element_size(type));
            target.now = target.after;
        }
    }

  private:
    struct Buffer {
        const std::byte* before = nullptr;
        std::byte* after = nullptr;
        const std::byte* now = nullptr;  // where the next statement reads it
        double folded = 0;               // what a total has made of these elements
    };
    Buffer& at(std::int64_t position) { return buffers_[static_cast<std::size_t>(position)]; }

    // first: the first element that the computation reads.
    compute::FormulaInputs inputs_of(const dsl::Computation& computation, std::size_t first) {
        operands_.clear();
        for (const std::int64_t buffer : computation.elements) {
            const DataType type = compute::type_of(buffer, rule_.type_);
            operands_.push_back({at(buffer).now + first * element_size(type), type});
        }
        scalars_.clear();
        for (const std::int64_t buffer : computation.scalars) scalars_.push_back(at(buffer).folded);
        return {operands_, parameters_, scalars_};
    }

    const UpdateRule& rule_;
    std::vector<double> parameters_;
    std::vector<Buffer> buffers_;  // by position; those between two extra buffers are unused
    std::vector<compute::FormulaOperand> operands_;
    std::vector<double> scalars_;
};

void UpdateRule::apply(const Buffers& before, const std::byte* g, std::size_t count,
                       std::span<const std::uint64_t> tensors, Round round,
                       const MutableBuffers& after) const {
    if (is_sum_) {
        std::byte* const destinations[] = {after.weights};
        const std::byte* const operands[] = {before.weights, g};
        return kernels::combine(type_, ReduceOp::sum, destinations, operands, count);
    }
    Pass pass(*this, before, g, round, after);
    if (!needs_whole_tensors()) {
        for (std::size_t first = 0; first < count; first += elements_a_turn)
            pass.run(first, std::min(elements_a_turn, count - first));
        return;
    }
    std::size_t first = 0;
    for (const std::uint64_t elements : tensors) {
        pass.run(first, elements);
        first += elements;
    }
}

}  // namespace hocket::params
