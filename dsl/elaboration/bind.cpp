#include "dsl/elaboration/bind.hpp"

#include <fmt/format.h>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/wire_format.hpp"
#include "dsl/syntax/names.hpp"

namespace hocket::dsl {
namespace {

constexpr std::int64_t loop_limit = 1 << 22;

// Returns true for what is named, not calculated: an algorithm or a format. Some formats are called like
// functions of computations, which no argument can call.
bool is_symbol(const ast::Expression& expression, const Scope& scope) {
    using Kind = ast::Expression::Kind;
    if (scope.find(expression.text)) return false;
    return expression.kind == Kind::name ||
           (expression.kind == Kind::call &&
            (!is_language_function(expression.text) || is_format(expression.text)));
}

Value argument_value(const ast::Expression& expression, const Evaluator& evaluator, const Scope& scope,
                     Tiles* tiles) {
    if (expression.kind == ast::Expression::Kind::name && expression.text == "auto") {
        if (!tiles)
            throw DiagnosticError(expression.span, "only a schedule's number of tiles can be `auto`",
                                  "write a number");
        tiles->is_used = true;
        return tiles->count;
    }
    if (is_symbol(expression, scope))
        return Symbol{std::make_shared<const ast::Expression>(with_values(expression, evaluator))};
    return evaluator.evaluate(expression);
}

// Arguments have been evaluated, so nothing else is left in them.
std::string text_of(const ast::Expression& expression) {
    using Kind = ast::Expression::Kind;
    if (expression.kind == Kind::integer) return std::to_string(expression.number);
    if (expression.kind == Kind::real) return fmt::format("{}", expression.real);
    if (expression.kind == Kind::labelled)
        return fmt::format("{} = {}", expression.text, text_of(expression.args[0]));
    std::string args;
    for (const ast::Expression& arg : expression.args) args += (args.empty() ? "" : ", ") + text_of(arg);
    return expression.kind == Kind::call ? fmt::format("{}({})", expression.text, args) : expression.text;
}

std::string text_of(const Value& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
    if (const auto* symbol = std::get_if<Symbol>(&value)) return text_of(*symbol->call);
    if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
    return "?";
}

std::string names_of(const std::vector<const ast::Parameter*>& parameters) {
    std::string names;
    for (const ast::Parameter* parameter : parameters)
        names += (names.empty() ? "" : ", ") + parameter->name.text;
    return names;
}

// Returns the number of the parameter that the label names.
std::size_t labelled_parameter(const std::string& name, const std::vector<const ast::Parameter*>& parameters,
                               const ast::Expression& argument) {
    for (std::size_t i = 0; i < parameters.size(); ++i)
        if (parameters[i]->name.text == argument.text) return i;
    throw DiagnosticError(argument.span, fmt::format("{} takes no argument '{}'", name, argument.text),
                          parameters.empty() ? "it takes none" : "it takes: " + names_of(parameters));
}

void refuse_start_parameters(const std::string& name, const std::vector<ast::Parameter>& parameters,
                             const ast::Expression& call) {
    for (const ast::Expression& argument : call.args)
        for (const ast::Parameter& parameter : parameters)
            if (argument.kind == ast::Expression::Kind::labelled && !parameter.value &&
                parameter.name.text == argument.text)
                throw DiagnosticError(
                    argument.span,
                    fmt::format("{} takes {} at each start, not as an argument", name, argument.text),
                    fmt::format("hkt_plan_start_with gives it, and in the tools --parameter {}=NUMBER",
                                argument.text));
}

}  // namespace

std::vector<const ast::Expression*> arguments_of(const std::string& name,
                                                 const std::vector<const ast::Parameter*>& parameters,
                                                 const ast::Expression& call) {
    if (call.args.size() > parameters.size())
        throw DiagnosticError(
            call.span, parameters.empty()
                           ? fmt::format("{} takes no arguments", name)
                           : fmt::format("{} takes at most {} argument{}, not {}", name, parameters.size(),
                                         parameters.size() == 1 ? "" : "s", call.args.size()));
    std::vector<const ast::Expression*> given(parameters.size(), nullptr);
    bool has_labels = false;
    for (std::size_t i = 0; i < call.args.size(); ++i) {
        const ast::Expression& argument = call.args[i];
        const bool is_labelled = argument.kind == ast::Expression::Kind::labelled;
        if (has_labels && !is_labelled)
            throw DiagnosticError(argument.span, "an argument without a name stands behind one with a name",
                                  "arguments without names come first, in the order of the parameters");
        has_labels |= is_labelled;
        const std::size_t parameter = is_labelled ? labelled_parameter(name, parameters, argument) : i;
        if (given[parameter])
            throw DiagnosticError(argument.span,
                                  fmt::format("{} is given twice", parameters[parameter]->name.text),
                                  "leave one of them out");
        given[parameter] = is_labelled ? &argument.args[0] : &argument;
    }
    return given;
}

ast::Expression with_values(const ast::Expression& call, const Evaluator& evaluator) {
    using Kind = ast::Expression::Kind;
    ast::Expression result = call;
    for (ast::Expression& argument : result.args) {
        ast::Expression& value = argument.kind == Kind::labelled ? argument.args[0] : argument;
        const Value found = evaluator.evaluate(value);
        ast::Expression number;
        number.span = value.span;
        if (const auto* whole = std::get_if<std::int64_t>(&found)) {
            number.number = *whole;
        } else if (const auto* real = std::get_if<double>(&found)) {
            number.kind = Kind::real;
            number.real = *real;
        } else {
            throw DiagnosticError(value.span,
                                  fmt::format("expected a number, but this is {}", kind_of(found)),
                                  "arguments of algorithms and formats are numbers");
        }
        value = std::move(number);
    }
    return result;
}

std::string bind_parameters(const std::string& name, const std::vector<ast::Parameter>& parameters,
                            const ast::Expression& reference, Scope& scope, Tiles* tiles) {
    std::vector<const ast::Parameter*> taken;
    for (const ast::Parameter& parameter : parameters)
        if (parameter.value) taken.push_back(&parameter);
    refuse_start_parameters(name, parameters, reference);
    const std::vector<const ast::Expression*> given = arguments_of(name, taken, reference);
    const Evaluator evaluator(scope, nullptr);
    std::string text;
    std::size_t arguments = 0;
    std::uint32_t given_at_start = 0;
    for (const ast::Parameter& parameter : parameters) {
        if (!parameter.value) {
            scope.add(parameter.name.text, StartParameter{given_at_start++});
            continue;
        }
        const ast::Expression* argument = given[arguments++];
        Value value = argument_value(argument ? *argument : *parameter.value, evaluator, scope, tiles);
        text += (text.empty() ? "" : ", ") + text_of(value);
        scope.add(parameter.name.text, std::move(value));
    }
    return taken.empty() ? name : name + "(" + text + ")";
}

std::vector<Value> values_of(const ast::Range& range, const Evaluator& evaluator) {
    std::vector<Value> values;
    if (range.kind == ast::Range::Kind::items) {
        Value items = evaluator.evaluate(range.first);
        if (const auto* group = std::get_if<Group>(&items)) {
            for (Rank member = 0; member < group->size; ++member) values.emplace_back(std::int64_t{member});
        } else if (const auto* list = std::get_if<GroupList>(&items)) {
            values.assign(list->begin(), list->end());
        } else {
            throw DiagnosticError(
                range.span,
                fmt::format("expected a range, a group or levels, but this is {}", kind_of(items)),
                "a range is 'first ..< end', or 'end >.. last' to count down");
        }
        return values;
    }
    const std::int64_t first = evaluator.integer(range.first), last = evaluator.integer(*range.last);
    const bool up = range.kind == ast::Range::Kind::up;
    std::int64_t count = 0;
    if (__builtin_sub_overflow(up ? last : first, up ? first : last, &count) || count > loop_limit)
        throw DiagnosticError(range.span, fmt::format("this loop has more than {} rounds", loop_limit));
    for (std::int64_t i = 0; i < count; ++i) values.emplace_back(up ? first + i : first - 1 - i);
    return values;
}

}  // namespace hocket::dsl
