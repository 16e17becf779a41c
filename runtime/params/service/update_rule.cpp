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
using Step = Update::Step;

// All statements run on this many elements before the next ones, so that shared data stays in the cache.
constexpr std::size_t elements_a_turn = 4096;

// Returns true for w = w + g, under any names.
bool adds_only(const Update& update) {
    return update.steps.size() == 1 && update.steps.front().formula.is_sum_of_two();
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
    if (is_sum_) return;
    for (const Step& step : update_->steps) {
        std::vector<DataType> elements;
        for (const std::uint32_t buffer : step.elements)
            elements.push_back(buffer < Update::first_state ? type : state_type());
        const bool is_of_weights = step.kind == Step::Kind::assign && step.target == Update::weights;
        runners_.emplace_back(step.formula, elements, is_of_weights ? type : state_type(), compiled);
    }
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
          totals_(rule.update_->totals.size()) {
        buffers_.push_back({before.weights, after.weights, rule.type_});
        buffers_.push_back({g, nullptr, rule.type_});
        for (std::size_t i = 0; i < rule.states(); ++i)
            buffers_.push_back({before.states[i], after.states[i], rule.state_type()});
    }

    // Runs all statements for n elements.
    void run(std::size_t first, std::size_t n) {
        for (Buffer& buffer : buffers_) buffer.now = buffer.before;
        for (std::size_t i = 0; i < rule_.runners_.size(); ++i) {
            const Step& step = rule_.update_->steps[i];
            operands_.clear();
            for (const std::uint32_t number : step.elements) {
                const Buffer& buffer = buffers_[number];
                operands_.push_back({buffer.now + first * element_size(buffer.type), buffer.type});
            }
            const compute::FormulaInputs inputs{operands_, parameters_, totals_};
            if (step.kind == Step::Kind::total) {
                totals_[step.target] = rule_.runners_[i].sum(inputs, n);
                continue;
            }
            Buffer& target = buffers_[step.target];
            rule_.runners_[i].run(inputs, n, target.after + first * element_size(target.type));
            target.now = target.after;
        }
    }

  private:
    struct Buffer {
        const std::byte* before;
        std::byte* after;
        DataType type;
        const std::byte* now = nullptr;  // where the next statement reads it
    };

    const UpdateRule& rule_;
    std::vector<double> parameters_, totals_;
    std::vector<Buffer> buffers_;
    std::vector<compute::FormulaOperand> operands_;
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
