#include "dsl/elaboration/operators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/formulas.hpp"

namespace hocket::dsl {
namespace {

// Functions of schedules' expressions that an operator cannot use: it has no selections and no sums.
constexpr std::string_view of_schedules[] = {"sum", "dense", "cleared", "mstopk", "total", "largest"};

void refuse_schedules_functions(const ast::Expression& expression, const ast::OperatorDefinition& of) {
    if (expression.kind == ast::Expression::Kind::call &&
        std::count(std::begin(of_schedules), std::end(of_schedules), expression.text) > 0)
        throw DiagnosticError(expression.span, fmt::format("{} cannot stand in an operator", expression.text),
                              fmt::format("an operator is made of {}, {}, numbers, and abs, sqrt, min, max, "
                                          "select(condition, a, b), float16 and bfloat16",
                                          of.first.text, of.second.text));
    for (const ast::Expression& arg : expression.args) refuse_schedules_functions(arg, of);
}

}  // namespace

Operator build_operator(const ast::OperatorDefinition& definition) {
    refuse_schedules_functions(definition.value, definition);
    // The operands are whole buffers, 0 and 1, of a schedule that has nothing else.
    const std::vector<ExtraBuffer> no_extras;
    Views views;
    Scope scope;
    scope.add(definition.first.text, ViewRef{views.add(View())});
    scope.add(definition.second.text, ViewRef{views.add(View().in(1))});
    Terms terms = terms_of(definition.value, false, scope, Evaluator(scope, nullptr), {no_extras, views});
    // Every kernel repeats the formula for each operand.
    check_size(terms.formula, definition.value.span, "operator");
    for (Formula::Item& item : terms.formula.items)
        if (item.op == Formula::Op::element)
            item.index = static_cast<std::uint32_t>(terms.elements[item.index].buffer);
    Operator made{definition.name.text, std::move(terms.formula), definition.commutative,
                  definition.associative, definition.span};
    made.source = keep_source(made.definition);
    return made;
}

void refuse_arguments(const ast::Expression& call) {
    if (!call.args.empty())
        throw DiagnosticError(call.span, "an operator takes no arguments", "write " + call.text);
}

}  // namespace hocket::dsl
