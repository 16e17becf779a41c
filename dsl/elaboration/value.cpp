#include "dsl/elaboration/value.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>

#include "dsl/base/closest.hpp"
#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {

using ast::Expression;

namespace {

[[noreturn]] void overflow(const Expression& expression) {
    throw DiagnosticError(expression.span, "this number leaves the range of 64 bits");
}

std::int64_t power(const Expression& expression, std::int64_t base, std::int64_t exponent) {
    if (exponent < 0)
        throw DiagnosticError(expression.span,
                              fmt::format("negative exponent {}: numbers are whole", exponent));
    std::int64_t result = 1;
    while (exponent > 0) {
        if (exponent & 1)
            if (__builtin_mul_overflow(result, base, &result)) overflow(expression);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow(expression);
    }
    return result;
}

std::int64_t quotient(const Expression& expression, std::int64_t a, std::int64_t b) {
    if (b == 0) throw DiagnosticError(expression.span, "division by zero");
    if (a == INT64_MIN && b == -1) overflow(expression);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));  // rounds down
}

std::int64_t remainder(const Expression& expression, std::int64_t a, std::int64_t b) {
    if (b <= 0)
        throw DiagnosticError(expression.span, fmt::format("mod {}: the divisor must be positive", b));
    return wrap(a, b);
}

void check_arguments(const Expression& call, std::size_t wanted) {
    if (call.args.size() != wanted)
        throw DiagnosticError(call.span,
                              fmt::format("{} takes {} argument{}, not {}", call.text, wanted,
                                          wanted == 1 ? "" : "s", call.args.size()),
                              call.text == "log" || call.text == "log_up" ? "log2(n), or log(n, base)" : "");
}

// Adds the work of the functions that the expression calls.
void add_calls(const Expression& expression, const Scope& scope, Function& to) {
    if (expression.kind == Expression::Kind::call)
        if (const Value* value = scope.find(expression.text))
            if (const auto* called = std::get_if<Function>(value)) {
                to.calls += 1 + called->calls;
                to.depth = std::max(to.depth, called->depth);
            }
    for (const Expression& arg : expression.args) add_calls(arg, scope, to);
}

std::int64_t shifted(const Expression& expression, std::int64_t value, std::int64_t places) {
    if (places < 0 || places > 63)
        throw DiagnosticError(expression.args[1].span, fmt::format("a shift by {} places", places),
                              "numbers have 64 bits: shift by 0 to 63 places");
    if (expression.op == ast::Operator::shift_right) return value >> places;
    const auto result = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << places);
    if (result >> places != value) overflow(expression);
    return result;
}

// Returns the number of times that `value` can be divided by `base`, rounded up if that is asked for, until 1
// or less is left.
std::int64_t logarithm(std::int64_t value, std::int64_t base, bool up) {
    std::int64_t result = 0;
    for (; value >= base; value = up ? (value - 1) / base + 1 : value / base) ++result;
    return result + (up && value > 1);
}

std::int64_t positive(const Expression& expression, std::int64_t value) {
    if (value <= 0)
        throw DiagnosticError(expression.span,
                              fmt::format("{} of {}: the argument must be positive", expression.text, value));
    return value;
}

}  // namespace

const char* kind_of(const Value& value) {
    constexpr const char* kinds[] = {"a number",
                                     "a group",
                                     "a list of groups",
                                     "a buffer",
                                     "a part of a buffer",
                                     "a name",
                                     "a number with a fraction",
                                     "a number that is not known before the start",
                                     "a function"};
    return kinds[value.index()];
}

namespace {

// Returns the last `let NAME` before the place, if it is in the same definition.
Span ended_let(Span place, const std::string& name) {
    if (!place.file) return {};
    const std::string_view text = std::string_view(place.file->text).substr(0, place.begin);
    const std::string let = "let " + name;
    const std::size_t at = text.rfind(let + " ");
    if (at == text.npos || text.find('}', at) == text.npos)
        return {};  // `let n = n + 1` is no end of a block
    for (const char* const definition : {"\nalgorithm ", "\nschedule ", "\ncollective ", "\ntopology "})
        if (const std::size_t begin = text.rfind(definition); begin != text.npos && begin > at) return {};
    return {place.file, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(at + let.size())};
}

}  // namespace

std::string Scope::numbers_text() const {
    constexpr std::size_t most = 8;
    std::vector<std::string> texts;
    for (const Entry& entry : entries_)
        if (const auto* number = std::get_if<std::int64_t>(&entry.value))
            texts.push_back(fmt::format("{} = {}", entry.name, *number));
    if (texts.size() > most) texts.erase(texts.begin(), texts.end() - most);
    return fmt::format("{}", fmt::join(texts, ", "));
}

Function function_of(const ast::Let& let, const Scope& scope) {
    constexpr std::size_t most_calls = 1000;
    constexpr std::uint32_t most_depth = 400;
    Function function{&let, scope.size(), 0, 0};
    add_calls(let.value, scope, function);
    function.depth += let.value.depth;
    if (function.calls > most_calls || function.depth > most_depth)
        throw DiagnosticError(
            let.name.span,
            function.calls > most_calls
                ? fmt::format("a call of {} makes more than {} others", let.name.text, most_calls)
                : fmt::format("the functions that {} calls are nested too deeply", let.name.text),
            "let n = f(1) gives a result a name, so that it is not calculated again");
    return function;
}

Value Evaluator::evaluate(const Expression& expression) const {
    switch (expression.kind) {
        case Expression::Kind::integer:
            return expression.number;
        case Expression::Kind::real:
            return expression.real;
        case Expression::Kind::name:
            return name(expression);
        case Expression::Kind::operation:
            if (expression.op == ast::Operator::negate)
                if (const Value value = evaluate(expression.args[0]); std::holds_alternative<double>(value))
                    return -std::get<double>(value);
            return operation(expression);
        case Expression::Kind::call:
            return call(expression);
        case Expression::Kind::index:
            return index(expression);
        case Expression::Kind::member:
            return member(expression);
        case Expression::Kind::part:
            return part(expression);
        case Expression::Kind::tuple:
            return tuple(expression);
        case Expression::Kind::choice:
            return evaluate(chosen(expression));
        case Expression::Kind::labelled:
            throw DiagnosticError(expression.span, "a function's arguments have no names",
                                  "algorithms, schedules, topologies and updates have parameters with names");
        case Expression::Kind::slice:
            break;
    }
    throw DiagnosticError(expression.span, "a range of chunks can only be the left side of a transfer");
}

std::int64_t Evaluator::integer(const Expression& expression) const {
    // Common cases first, which need no Value.
    if (expression.kind == Expression::Kind::integer) return expression.number;
    if (expression.kind == Expression::Kind::operation) return operation(expression);
    if (expression.kind == Expression::Kind::name)
        if (const Value* value = scope_.find(expression.text))
            if (const auto* number = std::get_if<std::int64_t>(value)) return *number;
    if (expression.kind == Expression::Kind::member && expression.text == "size")
        if (const Value* value = scope_.find(expression.args[0].text))
            if (const auto* group = std::get_if<Group>(value)) return group->size;
    const Value value = evaluate(expression);
    if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
    const bool is_number =
        std::holds_alternative<double>(value) || std::holds_alternative<StartParameter>(value);
    throw DiagnosticError(
        expression.span,
        fmt::format("expected a {}number, but this is {}", is_number ? "whole " : "", kind_of(value)),
        std::holds_alternative<StartParameter>(value)
            ? "a number that is known when the schedule is laid out has a value in the header: "
              "tiles = 4"
        : std::holds_alternative<ViewRef>(value)
            ? "a number is known when the schedule is laid out, as g.size or a member r; what is "
              "calculated of a buffer is assigned: x = 2 * x"
        : std::holds_alternative<Group>(value)
            ? fmt::format("the number of its members is {}.size", folded_text(expression.span))
        : std::holds_alternative<GroupList>(value)
            ? fmt::format("their number is {}.count", folded_text(expression.span))
        : std::holds_alternative<double>(value) ? "half of a whole number is n / 2, which rounds down"
                                                : "");
}

Group Evaluator::group(const Expression& expression) const {
    Value value = evaluate(expression);
    if (auto* group = std::get_if<Group>(&value)) return std::move(*group);
    throw DiagnosticError(
        expression.span, fmt::format("expected a group, but this is {}", kind_of(value)),
        std::holds_alternative<GroupList>(value)
            ? "all levels at once are `world`; one after the other: for l in levels  all_reduce x over l"
            : "a group is a level's name, levels[i], world, or several: (inner, outer)");
}

const Expression& Evaluator::chosen(const Expression& choice) const {
    const Expression* result = &choice;
    while (result->kind == Expression::Kind::choice) result = &result->args[truth(result->args[0]) ? 1 : 2];
    return *result;
}

// Returns what to write for the names that programs of single ranks have, or "".
std::string Evaluator::instead_of_name(std::string_view name) const {
    const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    const std::optional<std::string> group = scope_.name_of_group();
    if (is_one_of({"rank", "my_rank", "myrank", "rank_id", "me", "self"}))
        return topology_ && !group
                   ? "a text is for all ranks at once, and computations are the same on all; a transfer "
                     "names its "
                     "ranks: each r in world"
                   : fmt::format("a text is for all ranks at once, and transfers name theirs: each r in {}",
                                 group.value_or("g"));
    if (is_one_of({"size", "nranks", "num_ranks", "world_size", "nprocs", "np", "ranks"}))
        return group ? fmt::format("the number of members is {}.size", *group)
                     : "the number of ranks is `ranks`, and that of a level's members levels[i].size";
    return "";
}

Value Evaluator::name(const Expression& expression) const {
    const std::string& text = expression.text;
    if (const Value* value = scope_.find(text)) return *value;
    if (topology_) {
        if (text == "world") return world_group(*topology_);
        if (text == "ranks") return std::int64_t{topology_->ranks()};
        if (text == "levels") {
            GroupList list;
            for (int level = 0; level < static_cast<int>(topology_->levels.size()); ++level)
                list.push_back(make_group(*topology_, {level}));
            return list;
        }
        for (int level = 0; level < static_cast<int>(topology_->levels.size()); ++level)
            if (topology_->levels[level].name == text) return make_group(*topology_, {level});
    }
    std::vector<std::string> known = scope_.names();
    if (std::string hint = instead_of_name(text); !hint.empty())
        throw DiagnosticError(expression.span, fmt::format("'{}' is not known here", text), std::move(hint));
    if (topology_) {
        for (const char* name : {"levels", "world", "ranks"}) known.emplace_back(name);
        for (const Level& level : topology_->levels) known.push_back(level.name);
    }
    Diagnostic diagnostic{
        expression.span,
        fmt::format("'{}' is not known here{}", text, did_you_mean(text, known)),
        {},
        known.empty()
            ? "no names are known here"
            : fmt::format("known here: {}{}", fmt::join(known, ", "),
                          topology_ ? "; a level has the name that its topology (-t) gives it" : "")};
    if (const Span ended = ended_let(expression.span, text); ended.file) {
        diagnostic.notes.push_back({ended, "this one ended with its block"});
        diagnostic.hint = "make it before the block";
    }
    throw DiagnosticError(std::move(diagnostic));
}

Value Evaluator::index(const Expression& expression) const {
    const Value base = evaluate(expression.args[0]);
    const auto* list = std::get_if<GroupList>(&base);
    if (!list)
        throw DiagnosticError(expression.span,
                              std::holds_alternative<ViewRef>(base)
                                  ? "a chunk of a buffer can only be the left side of a transfer"
                                  : fmt::format("{} has no elements to choose from", kind_of(base)),
                              std::holds_alternative<Group>(base) ? "members are numbers: r -> q" : "");
    const std::int64_t position = integer(expression.args[1]);
    if (position < 0 || position >= static_cast<std::int64_t>(list->size()))
        throw DiagnosticError(
            expression.args[1].span,
            fmt::format("index {} is out of range: there {} {} level{}, counted from 0", position,
                        list->size() == 1 ? "is" : "are", list->size(), list->size() == 1 ? "" : "s"),
            position < 0 ? "the last one is levels[levels.count - 1]"
                         : fmt::format("a schedule for such topologies says so in its header: where "
                                       "levels.count >= {}",
                                       position + 1));
    return (*list)[position];
}

Value Evaluator::member(const Expression& expression) const {
    const Value base = evaluate(expression.args[0]);
    const std::string& text = expression.text;
    if (const auto* group = std::get_if<Group>(&base)) {
        if (text == "size") return std::int64_t{group->size};
        throw DiagnosticError(expression.span, fmt::format("a group has no '{}'", text), "it has .size");
    }
    if (const auto* list = std::get_if<GroupList>(&base)) {
        if (text == "count") return static_cast<std::int64_t>(list->size());
        if (text == "reversed") return GroupList(list->rbegin(), list->rend());
        throw DiagnosticError(expression.span, fmt::format("a list of groups has no '{}'", text),
                              "it has .count and .reversed");
    }
    throw DiagnosticError(expression.span, fmt::format("{} has no '{}'", kind_of(base), text),
                          std::holds_alternative<ViewRef>(base)
                              ? "a chunk is x[c], and a part is made by: let y = x.part(0 of 2)"
                              : "");
}

Value Evaluator::part(const Expression& expression) const {
    const Value base = evaluate(expression.args[0]);
    const auto* view = std::get_if<ViewRef>(&base);
    if (!view)
        throw DiagnosticError(expression.args[0].span,
                              fmt::format("expected a buffer, but this is {}", kind_of(base)));
    const std::int64_t index = integer(expression.args[1]), parts = integer(expression.args[2]);
    if (parts < 1)
        throw DiagnosticError(expression.args[2].span,
                              fmt::format("{} parts: there must be 1 or more", parts));
    if (index < 0 || index >= parts)
        throw DiagnosticError(expression.span, fmt::format("there is no part {} of {}", index, parts),
                              "parts count from 0");
    return PartOf{view->view, index, parts};
}

Value Evaluator::tuple(const Expression& expression) const {
    std::vector<int> levels;
    for (const Expression& arg : expression.args)
        for (const int level : group(arg).levels) {
            for (const int other : levels)
                if (other == level) throw DiagnosticError(arg.span, "this level is in the group twice");
            levels.push_back(level);
        }
    if (!topology_) throw DiagnosticError(expression.span, "an algorithm knows only its own group");
    return make_group(*topology_, std::move(levels));
}

std::int64_t Evaluator::operation(const Expression& expression) const {
    const std::int64_t a = integer(expression.args[0]);
    // and, or: the right side is evaluated only if it matters.
    if (expression.op == ast::Operator::logical_and) return a != 0 && truth(expression.args[1]);
    if (expression.op == ast::Operator::logical_or) return a != 0 || truth(expression.args[1]);
    if (expression.op == ast::Operator::logical_not) return a == 0;
    std::int64_t result = 0;
    if (expression.op == ast::Operator::negate) {
        if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) overflow(expression);
        return result;
    }
    const std::int64_t b = integer(expression.args[1]);
    switch (expression.op) {
        case ast::Operator::equal:
            return a == b;
        case ast::Operator::not_equal:
            return a != b;
        case ast::Operator::less:
            return a < b;
        case ast::Operator::less_equal:
            return a <= b;
        case ast::Operator::greater:
            return a > b;
        case ast::Operator::greater_equal:
            return a >= b;
        case ast::Operator::bit_or:
            return a | b;
        case ast::Operator::bit_xor:
            return a ^ b;
        case ast::Operator::bit_and:
            return a & b;
        case ast::Operator::shift_left:
        case ast::Operator::shift_right:
            return shifted(expression, a, b);
        case ast::Operator::divide:
            return quotient(expression, a, b);
        case ast::Operator::modulo:
            return remainder(expression, a, b);
        case ast::Operator::power:
            return power(expression, a, b);
        case ast::Operator::add:
            if (__builtin_add_overflow(a, b, &result)) overflow(expression);
            return result;
        case ast::Operator::subtract:
            if (__builtin_sub_overflow(a, b, &result)) overflow(expression);
            return result;
        default:
            if (__builtin_mul_overflow(a, b, &result)) overflow(expression);
            return result;
    }
}

Value Evaluator::call(const Expression& expression) const {
    const Value* value = scope_.find(expression.text);
    const auto* function = value ? std::get_if<Function>(value) : nullptr;
    return function ? apply(*function, expression) : own_function(expression);
}

Value Evaluator::apply(const Function& function, const Expression& call) const {
    const ast::Let& let = *function.definition;
    check_arguments(call, let.parameters.size());
    Scope inside(scope_, function.known);
    inside.reserve(call.args.size());
    for (std::size_t i = 0; i < call.args.size(); ++i) {
        Value argument = evaluate(call.args[i]);
        // The work of calls is counted where a function is made, which calls of an argument would escape.
        if (std::holds_alternative<Function>(argument))
            throw DiagnosticError(call.args[i].span, "a function cannot be given to a function",
                                  "call it here, and give its value");
        inside.add(let.parameters[i].text, std::move(argument));
    }
    try {
        return Evaluator(inside, topology_).evaluate(let.value);
    } catch (const DiagnosticError& error) {
        Diagnostic diagnostic = error.diagnostic();
        constexpr std::size_t most_notes = 4;
        if (diagnostic.notes.size() < most_notes) diagnostic.notes.push_back({call.span, "in this call"});
        throw DiagnosticError(std::move(diagnostic));
    }
}

namespace {

// Returns what the language has for functions that people know from other languages, or "".
std::string_view instead_of(std::string_view function) {
    constexpr std::pair<std::string_view, std::string_view> known[] = {
        {"reversed", "a list of levels is turned around by: levels.reversed"},
        {"abs",
         "of a whole number it is max(n, -n); of a buffer's elements it stands where one is assigned: x = "
         "abs(x)"},
        {"sqrt",
         "numbers here are whole, and known when the schedule is laid out; of sums and elements it stands "
         "where a buffer is assigned: x = x / sqrt(sum(n))"},
        {"exp", "numbers here are whole; of elements it stands where a buffer is assigned: x = exp(x)"},
        {"sum",
         "a name of a number is known when the schedule is laid out; sums over elements stand where a buffer "
         "is assigned: x = x / sum(n)"},
        {"len", "a list has .count, a group .size: levels.count, g.size"},
        {"size", "a list has .count, a group .size: levels.count, g.size"},
        {"range", "a range is 'first ..< end', or 'end >.. last' to count down"},
        {"topk", "the largest elements are selected by: let s = mstopk(x, 0.01)"},
        {"top_k", "the largest elements are selected by: let s = mstopk(x, 0.01)"},
        {"mean", "a number of all elements is made by total or largest: let n = total(x) and then sum(n)"},
        {"norm",
         "a number of all elements is made by total or largest: let n = total(x * x) and then sum(n)"},
        {"ceil", "whole numbers are divided with /, which rounds down: (n + d - 1) / d rounds up"},
        {"floor", "whole numbers are divided with /, which rounds down"},
    };
    for (const auto& [name, hint] : known)
        if (name == function) return hint;
    return "";
}

}  // namespace

// One of the language's own functions.
std::int64_t Evaluator::own_function(const Expression& expression) const {
    const auto arguments = [&](std::size_t count) { check_arguments(expression, count); };
    const auto argument = [&](std::size_t i) { return integer(expression.args[i]); };
    const auto width = [](std::int64_t number) {
        return static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(number)));
    };
    const std::string& function = expression.text;
    if (function == "pow2") {
        arguments(1);
        const std::int64_t number = argument(0);
        return number > 0 && std::has_single_bit(static_cast<std::uint64_t>(number));
    }
    if (function == "log2") return arguments(1), width(positive(expression, argument(0))) - 1;
    if (function == "log2_up") return arguments(1), width(positive(expression, argument(0)) - 1);
    if (function == "log" || function == "log_up") {
        arguments(2);
        const std::int64_t base = argument(1);
        if (base < 2)
            throw DiagnosticError(expression.args[1].span, fmt::format("a logarithm to the base {}", base),
                                  "the base is 2 or more");
        return logarithm(positive(expression, argument(0)), base, function == "log_up");
    }
    if (function == "min") return arguments(2), std::min(argument(0), argument(1));
    if (function == "max") return arguments(2), std::max(argument(0), argument(1));
    if (function == "block")
        throw DiagnosticError(expression.span,
                              "block(i, n) is a range of chunks: it can only stand in x[...]");
    if (const Value* value = scope_.find(function))
        throw DiagnosticError(expression.span,
                              fmt::format("'{}' is {}, not a function", function, kind_of(*value)));
    if (const std::string_view hint = instead_of(function); !hint.empty())
        throw DiagnosticError(expression.span, fmt::format("there is no function '{}' here", function),
                              std::string(hint));
    throw DiagnosticError(expression.span, fmt::format("there is no function '{}' here", function),
                          "there are pow2(n), log2(n) and log2_up(n) (rounded down and up), log(n, base) and "
                          "log_up(n, base), min, max, and block(i, n) in x[...]; "
                          "let f(i) = i + 1 makes another, for what follows it");
}

}  // namespace hocket::dsl
