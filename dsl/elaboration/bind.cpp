#include "dsl/elaboration/bind.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {
namespace {

constexpr std::int64_t loop_limit = 1 << 22;

Value argument_value(const ast::Expression& expression, const Evaluator& evaluator, const Scope& scope) {
    if (expression.kind == ast::Expression::Kind::name && !scope.find(expression.text))
        return Symbol{expression.text};
    return evaluator.evaluate(expression);
}

std::string text_of(const Value& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) return std::to_string(*number);
    if (const auto* symbol = std::get_if<Symbol>(&value)) return symbol->name;
    if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real);
    return "?";
}

}  // namespace

std::string bind_parameters(const std::string& name, const std::vector<ast::Parameter>& parameters,
                            const ast::Expression& reference, Scope& scope) {
    const auto taken = static_cast<std::size_t>(std::count_if(
        parameters.begin(), parameters.end(), [](const auto& parameter) { return parameter.value; }));
    if (reference.args.size() > taken)
        throw DiagnosticError(reference.span,
                              fmt::format("{} takes at most {} argument{}, not {}", name, taken,
                                          taken == 1 ? "" : "s", reference.args.size()));
    const Evaluator evaluator(scope, nullptr);
    std::string text;
    std::size_t arguments = 0;
    std::uint32_t given_at_start = 0;
    for (const ast::Parameter& parameter : parameters) {
        if (!parameter.value) {
            scope.add(parameter.name.text, StartParameter{given_at_start++});
            continue;
        }
        const ast::Expression& given =
            arguments < reference.args.size() ? reference.args[arguments] : *parameter.value;
        ++arguments;
        Value value = argument_value(given, evaluator, scope);
        text += (text.empty() ? "" : ", ") + text_of(value);
        scope.add(parameter.name.text, std::move(value));
    }
    return taken == 0 ? name : name + "(" + text + ")";
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
