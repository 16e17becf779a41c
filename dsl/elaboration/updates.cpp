#include "dsl/elaboration/updates.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <string_view>

#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/bind.hpp"
#include "dsl/elaboration/formulas.hpp"

namespace hocket::dsl {
namespace {

using Expression = ast::Expression;

// A kernel is compiled for each statement; more would take seconds.
constexpr std::size_t most_statements = 64;

double number_of(const Expression& expression) {
    if (expression.kind == Expression::Kind::integer) return static_cast<double>(expression.number);
    if (expression.kind == Expression::Kind::real) return expression.real;
    if (expression.kind == Expression::Kind::operation && expression.op == ast::Operator::negate)
        return -number_of(expression.args[0]);
    throw DiagnosticError(expression.span, "an update's parameters are numbers", "such as 0.1, 2 or 1e-8");
}

bool mentions(const Expression& expression, std::string_view name) {
    return (expression.kind == Expression::Kind::name && expression.text == name) ||
           std::any_of(expression.args.begin(), expression.args.end(),
                       [&](const Expression& arg) { return mentions(arg, name); });
}

bool mentions(const ast::Statement& statement, std::string_view name) {
    if (const auto* let = std::get_if<ast::Let>(&statement.node)) return mentions(let->value, name);
    if (const auto* assign = std::get_if<ast::Assign>(&statement.node)) return mentions(assign->value, name);
    return false;
}

class UpdateBuilder {
  public:
    UpdateBuilder(const ast::UpdateDefinition& definition, std::span<const double> arguments)
        : definition_(definition) {
        scope_.add("w", ViewRef{views_.add(View().in(Update::weights))});
        scope_.add("g", ViewRef{views_.add(View().in(Update::gradients))});
        scope_.add("workers", StartParameter{Update::workers});
        scope_.add("round", StartParameter{Update::round});
        for (std::size_t i = 0; i < arguments.size(); ++i)
            scope_.add(definition.parameters[i].name.text, arguments[i]);
    }

    Update build() {
        if (definition_.body.size() > most_statements)
            throw DiagnosticError(definition_.span,
                                  fmt::format("this update has {} statements", definition_.body.size()),
                                  fmt::format("the limit is {}", most_statements));
        for (const ast::Statement& statement : definition_.body) {
            if (const auto* state = std::get_if<ast::State>(&statement.node)) add_state(*state);
            if (const auto* let = std::get_if<ast::Let>(&statement.node)) add_let(*let);
            if (const auto* assign = std::get_if<ast::Assign>(&statement.node)) add_assignment(*assign);
        }
        check_use();
        return std::move(update_);
    }

  private:
    // Returns its position.
    std::int64_t add_buffer(ExtraBuffer::Kind kind, const ast::Name& name) {
        const std::int64_t begin = extra_begin(update_.extras.size());
        scope_.add(name.text, ViewRef{views_.add(View().in(begin))});
        update_.extras.push_back({.kind = kind, .name = name.text, .span = name.span, .begin = begin});
        return begin;
    }

    Buffers buffers() const { return {update_.extras, views_}; }

    // ---- Expressions ---------------------------------------------------------------------------

    // Returns true if the expression has the same value for all elements and tensors.
    bool is_uniform(const Expression& expression) const {
        switch (expression.kind) {
            case Expression::Kind::integer:
            case Expression::Kind::real:
                return true;
            case Expression::Kind::name:
                return !std::holds_alternative<ViewRef>(evaluator_.evaluate(expression));
            case Expression::Kind::operation:
            case Expression::Kind::call:
                return std::all_of(expression.args.begin(), expression.args.end(),
                                   [this](const Expression& arg) { return is_uniform(arg); });
            case Expression::Kind::choice:
                return is_uniform(chosen(expression, evaluator_));
            default:
                return false;
        }
    }

    static bool is_power(const Expression& expression) {
        return expression.kind == Expression::Kind::operation && expression.op == ast::Operator::power;
    }
    static bool has_parts(const Expression& expression) {
        return expression.kind == Expression::Kind::operation || expression.kind == Expression::Kind::call;
    }

    Terms terms(const Expression& expression) const {
        Terms terms = terms_of(expression, false, scope_, evaluator_, buffers());
        check_size(terms.formula, expression.span, "expression");
        return terms;
    }

    // Adds a number with the expression's value to the update.
    StartParameter add_number(const Expression& given) {
        const Expression& uniform = chosen(given, evaluator_);
        Update::Number number;
        if (is_power(uniform)) {
            number.value = terms(without_powers(uniform.args[0])).formula;
            number.exponent = terms(without_powers(uniform.args[1])).formula;
        } else {
            number.value = terms(without_powers(uniform)).formula;
        }
        update_.numbers.push_back(std::move(number));
        return {static_cast<std::uint32_t>(Update::first_number + update_.numbers.size() - 1)};
    }

    // Returns a name that stands for the expression. It begins with the mark of comments, so no text can
    // contain it.
    Expression named(const Expression& uniform) {
        const StartParameter number = add_number(uniform);
        hidden_names_.push_back(fmt::format("#{}", number.index));
        scope_.add(hidden_names_.back(), number);
        Expression name;
        name.kind = Expression::Kind::name;
        name.span = uniform.span;
        name.text = hidden_names_.back();
        return name;
    }

    Expression without_powers(const Expression& uniform) {
        if (uniform.kind == Expression::Kind::choice) return without_powers(chosen(uniform, evaluator_));
        if (is_power(uniform)) return named(uniform);
        Expression result = uniform;
        for (Expression& arg : result.args) arg = without_powers(arg);
        return result;
    }

    // Replaces each compound subexpression that is uniform over the elements with a named scalar of the
    // update.
    Expression with_numbers(const Expression& expression) {
        if (expression.kind == Expression::Kind::choice) return with_numbers(chosen(expression, evaluator_));
        if (has_parts(expression) && is_uniform(expression)) return named(expression);
        if (is_power(expression))
            throw DiagnosticError(expression.span, "this power is not the same for all elements",
                                  "** is for numbers, parameters, workers and round; of others write x * x");
        Expression result = expression;
        if (has_parts(expression))
            for (Expression& arg : result.args) arg = with_numbers(arg);
        return result;
    }

    // ---- Statements ----------------------------------------------------------------------------

    void add_state(const ast::State& state) {
        buffer_of(state.like, evaluator_, buffers());
        add_buffer(ExtraBuffer::Kind::state, state.name);
    }

    void add_let(const ast::Let& let) {
        if (!let.parameters.empty())
            throw DiagnosticError(let.name.span, "an update has no functions",
                                  "write the expression where it is used, or let n = ... for a number");
        if (const auto fold = fold_of(let.value)) return add_total(let, *fold);
        if (!is_uniform(let.value))
            throw DiagnosticError(let.value.span, "let names no values of elements here",
                                  "it names sums, as in let n = total(w * w), and numbers, as in let left = "
                                  "1 - 0.9 ** round; values of elements are kept in states");
        const StartParameter number = add_number(let.value);
        scope_.add(let.name.text, number);
    }

    void add_total(const ast::Let& let, Fold fold) {
        const Terms found = folded(let.value, fold, "w", [this](const Expression& expression) {
            return terms(with_numbers(expression));
        });
        const std::int64_t sums = add_buffer(ExtraBuffer::Kind::sums, let.name);
        update_.extras.back().fold = fold;
        update_.computations.push_back(computation_of(Computation::Kind::total, sums, found));
    }

    void add_assignment(const ast::Assign& assign) {
        const Operand target = buffer_of(assign.target, evaluator_, buffers());
        if (target.buffer == Update::gradients)
            throw DiagnosticError(assign.target.span, "g holds the workers' gradients, and can only be read",
                                  "w and states can be assigned to");
        update_.computations.push_back(
            computation_of(Computation::Kind::assign, target.buffer, terms(with_numbers(assign.value))));
    }

    bool is_assigned(std::int64_t buffer) const {
        return std::ranges::find(update_.computations, buffer, &Computation::target) !=
               update_.computations.end();
    }

    void check_use() const {
        if (!is_assigned(Update::weights))
            throw DiagnosticError(definition_.span, "this update does not assign to w, the weights",
                                  "such as w = w - 0.1 * g / workers");
        for (const ExtraBuffer& extra : update_.extras)
            if (!is_assigned(extra.begin))  // a sum always is: by its total
                throw DiagnosticError(extra.span,
                                      fmt::format("{} is never assigned to: it stays 0", extra.name),
                                      "assign to it, or leave it out");
        for (const ast::Parameter& parameter : definition_.parameters)
            if (std::none_of(definition_.body.begin(), definition_.body.end(),
                             [&](const ast::Statement& of) { return mentions(of, parameter.name.text); }))
                throw DiagnosticError(parameter.name.span,
                                      fmt::format("{} is never used", parameter.name.text),
                                      "use it, or leave it out");
    }

    const ast::UpdateDefinition& definition_;
    Update update_;
    Views views_;
    Scope scope_;
    Evaluator evaluator_{scope_, nullptr};
    std::deque<std::string> hidden_names_;
};

}  // namespace

std::vector<double> update_arguments(const ast::UpdateDefinition& definition, const ast::Expression& call) {
    std::vector<const ast::Parameter*> parameters;
    for (const ast::Parameter& parameter : definition.parameters) parameters.push_back(&parameter);
    const std::vector<const Expression*> given = arguments_of(definition.name.text, parameters, call);
    std::vector<double> values;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const ast::Parameter& parameter = *parameters[i];
        if (!given[i] && !parameter.value)
            throw DiagnosticError(
                Diagnostic{call.span,
                           fmt::format("{} needs a value for {}", definition.name.text, parameter.name.text),
                           {{parameter.name.span, "this parameter has no default"}},
                           fmt::format("name it in parentheses, as in {0}(0.1) or {0}({1} = 0.1)",
                                       definition.name.text, parameter.name.text)});
        values.push_back(number_of(given[i] ? *given[i] : *parameter.value));
    }
    return values;
}

std::vector<double> sample_arguments(const ast::UpdateDefinition& definition) {
    std::vector<double> values;
    for (const ast::Parameter& parameter : definition.parameters)
        values.push_back(parameter.value ? number_of(*parameter.value) : 1);
    return values;
}

Update build_update(const ast::UpdateDefinition& definition, std::span<const double> arguments) {
    Update update = UpdateBuilder(definition, arguments).build();
    update.name = definition.name.text;
    if (!arguments.empty()) update.name += fmt::format("({})", fmt::join(arguments, ", "));
    update.definition = definition.span;
    update.source = keep_source(update.definition);
    for (ExtraBuffer& extra : update.extras) extra.span.file = update.source.get();
    return update;
}

}  // namespace hocket::dsl
