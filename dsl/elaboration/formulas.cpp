#include "dsl/elaboration/formulas.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {
namespace {

using Kind = ast::Expression::Kind;
using Op = Formula::Op;
using Use = Computation::Sparse::Use;

struct ElementFunction {
    Op op;
    std::size_t arguments;
};
const std::map<std::string_view, ElementFunction> functions = {
    {"abs", {Op::absolute, 1}},         {"sqrt", {Op::square_root, 1}}, {"float16", {Op::to_float16, 1}},
    {"bfloat16", {Op::to_bfloat16, 1}}, {"min", {Op::minimum, 2}},      {"max", {Op::maximum, 2}},
    {"select", {Op::select, 3}},
};

std::optional<Op> operation_of(ast::Operator op) {
    using ast::Operator;
    switch (op) {
        case Operator::logical_or:
            return Op::logical_or;
        case Operator::logical_and:
            return Op::logical_and;
        case Operator::logical_not:
            return Op::logical_not;
        case Operator::equal:
            return Op::equal;
        case Operator::not_equal:
            return Op::not_equal;
        case Operator::less:
            return Op::less;
        case Operator::less_equal:
            return Op::less_equal;
        case Operator::greater:
            return Op::greater;
        case Operator::greater_equal:
            return Op::greater_equal;
        case Operator::add:
            return Op::add;
        case Operator::subtract:
            return Op::subtract;
        case Operator::multiply:
            return Op::multiply;
        case Operator::divide:
            return Op::divide;
        case Operator::negate:
            return Op::negate;
        case Operator::bit_or:
        case Operator::bit_xor:
        case Operator::bit_and:
        case Operator::shift_left:
        case Operator::shift_right:
        case Operator::modulo:
        case Operator::power:
            break;
    }
    return std::nullopt;
}

class FormulaBuilder {
  public:
    FormulaBuilder(const Scope& scope, const Evaluator& evaluator, const Buffers& buffers)
        : scope_(scope), evaluator_(evaluator), buffers_(buffers) {}

    // Splits the sums and differences at the top of an expression, which may have sparse terms.
    void add_terms(const ast::Expression& expression, bool negative) {
        if (expression.kind == Kind::choice) return add_terms(chosen(expression, evaluator_), negative);
        if (is_sum(expression) && has_sparse(expression)) {
            add_terms(expression.args[0], negative);
            add_terms(expression.args[1], negative != (expression.op == ast::Operator::subtract));
            return;
        }
        if (const auto sparse = sparse_of(expression)) {
            if (negative && !sparse->is_own_only)
                throw DiagnosticError(expression.span, "the sum of selections can only be added",
                                      "a rank subtracts only its own selection, dense(s); to negate the sum, "
                                      "write x = sum(s), and then x = 0 - x");
            terms.sparse.push_back({*sparse, negative ? Use::subtract : Use::add});
            return;
        }
        const bool is_first = terms.formula.items.empty();
        add(expression);
        if (is_first && negative) terms.formula.push(Op::negate);
        if (!is_first) terms.formula.push(negative ? Op::subtract : Op::add);
    }

    // Adds a `cleared(e, s)`. Returns false for any other expression.
    bool add_cleared(const ast::Expression& expression) {
        if (expression.kind != Kind::call || expression.text != "cleared") return false;
        check_arguments(expression, 2);
        add(expression.args[0]);
        Operand selection = operand(expression.args[1]);
        if (kind_at(selection) != ExtraBuffer::Kind::selection)
            throw DiagnosticError(expression.args[1].span, "expected a selection here",
                                  "let s = mstopk(x, density) makes one");
        selection.is_own_only = true;
        terms.sparse.push_back({selection, Use::clear});
        return true;
    }

    void add(const ast::Expression& expression) {
        switch (expression.kind) {
            case Kind::integer:
                return number(static_cast<double>(expression.number));
            case Kind::real:
                return number(expression.real);
            case Kind::name:
                return name(expression);
            case Kind::operation:
                return operation(expression);
            case Kind::call:
                return call(expression);
            case Kind::choice:
                return add(chosen(expression, evaluator_));
            default:
                throw DiagnosticError(expression.span, "this cannot be calculated for each element",
                                      "a computation is made of buffers, numbers, parameters and functions; "
                                      "`ranks` is the number of ranks");
        }
    }

    // Returns the buffer, or the part of one, that the expression names.
    Operand operand(const ast::Expression& expression) const {
        const Value value = evaluator_.evaluate(expression);
        const auto* reference = std::get_if<ViewRef>(&value);
        if (!reference)
            throw DiagnosticError(expression.span,
                                  fmt::format("expected a buffer, but this is {}", kind_of(value)));
        return {reference->view, buffers_.views[reference->view].buffer(), expression.span};
    }

    std::optional<ExtraBuffer::Kind> kind_at(const Operand& operand) const {
        const ExtraBuffer* extra = extra_at(buffers_.extras, operand.buffer);
        return extra ? std::optional(extra->kind) : std::nullopt;
    }

    Fold fold_at(const Operand& operand) const { return extra_at(buffers_.extras, operand.buffer)->fold; }

    Terms terms;

  private:
    static bool is_sum(const ast::Expression& expression) {
        return expression.kind == Kind::operation &&
               (expression.op == ast::Operator::add || expression.op == ast::Operator::subtract);
    }

    // Terms are split only if some are sparse: otherwise a - (b - c) would be calculated as a - b + c.
    bool has_sparse(const ast::Expression& expression) const {
        if (expression.kind == Kind::choice) return has_sparse(chosen(expression, evaluator_));
        if (is_sum(expression)) return has_sparse(expression.args[0]) || has_sparse(expression.args[1]);
        return sparse_of(expression).has_value();
    }

    void number(double value) { terms.formula.items.push_back({Op::number, 0, value}); }

    static void check_arguments(const ast::Expression& call, std::size_t wanted) {
        if (call.args.size() != wanted)
            throw DiagnosticError(call.span, fmt::format("{} takes {} argument{}, not {}", call.text, wanted,
                                                         wanted == 1 ? "" : "s", call.args.size()));
    }

    std::uint32_t index_in(std::vector<Operand>& operands, const Operand& operand) {
        for (std::uint32_t i = 0; i < operands.size(); ++i)
            if (operands[i].view == operand.view) return i;
        operands.push_back(operand);
        return static_cast<std::uint32_t>(operands.size() - 1);
    }

    // Returns false if the value is not a number.
    bool add_number(const Value& value) {
        if (const auto* whole = std::get_if<std::int64_t>(&value))
            number(static_cast<double>(*whole));
        else if (const auto* real = std::get_if<double>(&value))
            number(*real);
        else if (const auto* parameter = std::get_if<StartParameter>(&value))
            terms.formula.items.push_back({Op::parameter, parameter->index});
        else
            return false;
        return true;
    }

    void name(const ast::Expression& expression) {
        if (add_number(evaluator_.evaluate(expression))) return;
        const Operand named = operand(expression);
        const auto kind = kind_at(named);
        if (kind == ExtraBuffer::Kind::selection)
            throw DiagnosticError(
                expression.span,
                fmt::format("{} is a selection, not a value for each element", expression.text),
                fmt::format(
                    "dense({0}) or sum({0}) can be added to an expression or subtracted from it, and e "
                    "= cleared(e, {0}) clears what was selected",
                    expression.text));
        if (kind == ExtraBuffer::Kind::sums)
            throw DiagnosticError(
                expression.span, fmt::format("{} holds parts of numbers, not one", expression.text),
                fmt::format("write {0}({1}), once all parts are here, also within min, max and select",
                            reader_of(fold_at(named)), expression.text));
        terms.formula.items.push_back({Op::element, index_in(terms.elements, named)});
    }

    void operation(const ast::Expression& expression) {
        const auto op = operation_of(expression.op);
        if (!op)
            throw DiagnosticError(
                expression.span,
                fmt::format("'{}' cannot be calculated for each element", ast::spelling(expression.op)),
                expression.op == ast::Operator::power ? "write x * x" : "");
        for (const ast::Expression& arg : expression.args) add(arg);
        terms.formula.push(*op);
    }

    void call(const ast::Expression& expression) {
        const Value* own = scope_.find(expression.text);
        if (own && std::holds_alternative<dsl::Function>(*own)) {
            const Value result = evaluator_.evaluate(expression);
            if (add_number(result)) return;
            throw DiagnosticError(
                expression.span,
                fmt::format("expected a number, but {} gives {} here", expression.text, kind_of(result)),
                "a function is calculated before the elements are: it can only give numbers");
        }
        if (expression.text == "sum" ||
            (expression.text == "max" && expression.args.size() == 1 && names_buffer(expression.args[0])))
            return scalar(expression);
        const auto function = functions.find(expression.text);
        if (function == functions.end()) {
            const bool is_sparse = expression.text == "dense" || expression.text == "cleared" ||
                                   expression.text == "mstopk" || expression.text == "total" ||
                                   expression.text == "largest";
            throw DiagnosticError(
                expression.span,
                is_sparse ? fmt::format("{} cannot stand inside an expression", expression.text)
                          : fmt::format("there is no function '{}' of elements", expression.text),
                expression.text == "largest"
                    ? "let m = largest(abs(x)) in a statement of its own, and then max(m)"
                : is_sparse
                    ? "e = e - dense(s), e = cleared(e, s), let s = mstopk(e, density), let n = total(x * x)"
                    : "there are abs, sqrt, min, max, select(condition, a, b), float16, bfloat16, sum(n) of "
                      "what total made, and max(n) of what largest made");
        }
        check_arguments(expression, function->second.arguments);
        for (const ast::Expression& arg : expression.args) add(arg);
        terms.formula.push(function->second.op);
    }

    bool names_buffer(const ast::Expression& expression) const {
        if (expression.kind != Kind::name) return false;
        const Value* const named = scope_.find(expression.text);
        return named && std::holds_alternative<ViewRef>(*named);
    }

    // sum(n) or max(n): one number for each tensor.
    void scalar(const ast::Expression& expression) {
        check_arguments(expression, 1);
        const Operand folded = operand(expression.args[0]);
        if (kind_at(folded) != ExtraBuffer::Kind::sums) {
            if (expression.text == "max")
                throw DiagnosticError(expression.span, "max takes 2 arguments, or a number that largest made",
                                      "max(x, 0), or let n = largest(x) and then max(n)");
            throw DiagnosticError(expression.span, "the sum of selections cannot stand inside an expression",
                                  "add it to the expression, as in x = y + sum(s)");
        }
        if (const std::string_view reader = reader_of(fold_at(folded)); expression.text != reader)
            throw DiagnosticError(
                expression.span,
                fmt::format("{} made {}, of whose parts there is no {}", maker_of(fold_at(folded)),
                            expression.args[0].text, expression.text),
                fmt::format("write {}({})", reader, expression.args[0].text));
        terms.formula.items.push_back({Op::scalar, index_in(terms.scalars, folded)});
    }

    // Returns the selection in dense(s) or sum(s).
    std::optional<Operand> sparse_of(const ast::Expression& expression) const {
        if (expression.kind != Kind::call || (expression.text != "dense" && expression.text != "sum"))
            return std::nullopt;
        check_arguments(expression, 1);
        Operand selection = operand(expression.args[0]);
        const bool is_dense = expression.text == "dense";
        if (kind_at(selection) != ExtraBuffer::Kind::selection) {
            if (!is_dense && kind_at(selection) == ExtraBuffer::Kind::sums) return std::nullopt;
            throw DiagnosticError(expression.args[0].span, "expected a selection here",
                                  "let s = mstopk(x, density) makes one");
        }
        selection.is_own_only = is_dense;
        selection.span = expression.span;
        return selection;
    }

    const Scope& scope_;
    const Evaluator& evaluator_;
    const Buffers& buffers_;
};

}  // namespace

const ast::Expression& chosen(const ast::Expression& choice, const Evaluator& evaluator) {
    try {
        return evaluator.chosen(choice);
    } catch (const DiagnosticError& error) {
        Diagnostic diagnostic = error.diagnostic();
        diagnostic.hint =
            "`if` chooses before anything is calculated; select(condition, a, b) chooses for each element";
        throw DiagnosticError(std::move(diagnostic));
    }
}

Terms terms_of(const ast::Expression& expression, bool sparse, const Scope& scope, const Evaluator& evaluator,
               const Buffers& buffers) {
    FormulaBuilder builder(scope, evaluator, buffers);
    if (!sparse) {
        builder.add(expression);
    } else if (!builder.add_cleared(expression)) {
        builder.add_terms(expression, false);
        if (builder.terms.formula.items.empty()) builder.terms.formula.items.push_back({Op::number});
    }
    return std::move(builder.terms);
}

std::optional<Fold> fold_of(const ast::Expression& value) {
    if (value.kind != Kind::call) return std::nullopt;
    for (const Fold fold : {Fold::sum, Fold::largest})
        if (value.text == maker_of(fold)) return fold;
    return std::nullopt;
}

Terms folded(const ast::Expression& call, Fold fold, std::string_view example,
             const std::function<Terms(const ast::Expression&)>& terms) {
    const bool is_sum = fold == Fold::sum;
    if (call.args.size() != 1)
        throw DiagnosticError(
            call.span,
            fmt::format("{} takes 1 argument: the expression {}", maker_of(fold),
                        is_sum ? "to add up" : "whose largest value is wanted"),
            is_sum ? fmt::format("let n = total({0} * {0}) adds up the squares of each tensor's elements",
                                 example)
                   : fmt::format("let n = largest(abs({})) finds the largest magnitude in each tensor",
                                 example));
    Terms found = terms(call.args[0]);
    if (found.elements.empty())
        throw DiagnosticError(call.span, is_sum ? "this adds up nothing: no buffer is named"
                                                : "this has no elements: no buffer is named");
    return found;
}

void check_size(const Formula& formula, Span span, std::string_view what) {
    constexpr std::size_t most = 256;
    if (formula.items.size() > most)
        throw DiagnosticError(
            span, fmt::format("this {} has {} names, numbers and operations", what, formula.items.size()),
            fmt::format("the limit is {}", most));
}

Computation computation_of(Computation::Kind kind, std::int64_t target, const Terms& terms) {
    Computation computation{.kind = kind, .target = target, .formula = terms.formula};
    for (const Operand& element : terms.elements) computation.elements.push_back(element.buffer);
    for (const Terms::Sparse& term : terms.sparse)
        computation.sparse.push_back({term.operand.buffer, term.use});
    for (const Operand& scalar : terms.scalars) computation.scalars.push_back(scalar.buffer);
    return computation;
}

Operand buffer_of(const ast::Expression& expression, const Evaluator& evaluator, const Buffers& buffers) {
    const Scope none;
    const FormulaBuilder builder(none, evaluator, buffers);
    const Operand named = builder.operand(expression);
    const auto kind = builder.kind_at(named);
    if (kind == ExtraBuffer::Kind::selection || kind == ExtraBuffer::Kind::sums)
        throw DiagnosticError(
            expression.span, fmt::format("expected a buffer like x, but this is {}",
                                         kind == ExtraBuffer::Kind::sums ? "a list of sums" : "a selection"));
    return named;
}

}  // namespace hocket::dsl
