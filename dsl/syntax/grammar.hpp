// The language's grammar, as Spirit X3 rules. Only parse.cpp includes it, because it compiles slowly.
#pragma once

#include <boost/fusion/include/at_c.hpp>
#include <boost/spirit/home/x3.hpp>

#include <array>
#include <charconv>
#include <functional>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/quantities.hpp"
#include "dsl/syntax/ast.hpp"
#include "dsl/syntax/words.hpp"

// Names a parser with an action after the parser (X3 would use the C++ type's name).
template <typename Subject, typename Action>
struct boost::spirit::x3::get_info<boost::spirit::x3::action<Subject, Action>> {
    using result_type = std::string;
    std::string operator()(const action<Subject, Action>& parser) const { return what(parser.subject); }
};

// Names a list after its element, and a sequence after its first parser.
template <typename Element, typename Separator>
struct boost::spirit::x3::get_info<boost::spirit::x3::list<Element, Separator>> {
    using result_type = std::string;
    std::string operator()(const list<Element, Separator>& parser) const { return what(parser.left); }
};
template <typename First, typename Rest>
struct boost::spirit::x3::get_info<boost::spirit::x3::sequence<First, Rest>> {
    using result_type = std::string;
    std::string operator()(const sequence<First, Rest>& parser) const { return what(parser.left); }
};
// Names an alternative after its first parser.
template <typename First, typename Rest>
struct boost::spirit::x3::get_info<boost::spirit::x3::alternative<First, Rest>> {
    using result_type = std::string;
    std::string operator()(const alternative<First, Rest>& parser) const { return what(parser.left); }
};

// Names are the only lexemes without a rule of their own (keywords have one).
template <typename Subject>
struct boost::spirit::x3::get_info<boost::spirit::x3::lexeme_directive<Subject>> {
    using result_type = std::string;
    std::string operator()(const lexeme_directive<Subject>&) const { return "a name"; }
};

namespace hocket::dsl::grammar {

namespace x3 = boost::spirit::x3;
namespace ascii = x3::ascii;  // bytes above 127 belong to no class, in any locale
using ast::Expression;
using ast::Operator;
using boost::fusion::at_c;
using Iterator = const char*;

constexpr int depth_limit = 200;  // of nested expressions and statements; limits the recursion

// ---- Places in the source ----------------------------------------------------------------------

struct FileTag;

// located(parser) sets the span of the rule's value. (X3 passes no attribute to on_success of a rule with
// actions.)
template <typename Context>
Span span_of(const Context& context, const char* first, const char* last) {
    const SourceFile& file = x3::get<FileTag>(context).get();
    const char* base = file.text.data();
    return {&file, static_cast<std::uint32_t>(first - base), static_cast<std::uint32_t>(last - base)};
}
template <typename Context>
std::uint32_t offset_of(const Context& context) {
    const SourceFile& file = x3::get<FileTag>(context).get();
    return static_cast<std::uint32_t>(x3::_where(context).begin() - file.text.data());
}
const auto set_begin = [](auto& context) {
    const std::uint32_t offset = offset_of(context);
    x3::_val(context).span = {&x3::get<FileTag>(context).get(), offset, offset + 1};
};
const auto set_end = [](auto& context) { x3::_val(context).span.end = offset_of(context); };

template <typename Parser>
auto located(const Parser& parser) {
    return x3::eps[set_begin] >> parser >> x3::no_skip[x3::eps[set_end]];
}

// The number of nested(...) around a place, while it is parsed.
struct DepthTag;

// Stands in each rule that the grammar comes back to, so that no text can use up the stack.
template <typename Subject>
struct Nested : x3::unary_parser<Subject, Nested<Subject>> {
    using x3::unary_parser<Subject, Nested<Subject>>::unary_parser;
    static bool const is_pass_through_unary = true;
    static bool const handles_container = Subject::handles_container;

    template <typename Context, typename RuleContext, typename Attribute>
    bool parse(Iterator& first, const Iterator& last, const Context& context, RuleContext& rule_context,
               Attribute& attribute) const {
        struct Level {
            int& depth;
            ~Level() { --depth; }
        } const level{++x3::get<DepthTag>(context).get()};
        if (level.depth > depth_limit) {
            x3::skip_over(first, last, context);
            throw DiagnosticError(span_of(context, first, std::min(first + 1, last)),
                                  "this is nested too deeply",
                                  "the limit is " + std::to_string(depth_limit) + " levels");
        }
        return this->subject.parse(first, last, context, rule_context, attribute);
    }
};
template <typename Subject>
auto nested(const Subject& subject) {
    return Nested<typename x3::extension::as_parser<Subject>::value_type>{x3::as_parser(subject)};
}

// ---- Actions -----------------------------------------------------------------------------------

void bound_depth(Expression& expression) {
    int depth = 0;
    for (const Expression& arg : expression.args) depth = std::max<int>(depth, arg.depth);
    if (++depth > depth_limit)
        throw DiagnosticError(
            expression.span, "this expression is nested too deeply",
            "write (a + b) + (c + d) for a + b + c + d, or several statements for one; the limit is " +
                std::to_string(depth_limit) + " levels");
    expression.depth = static_cast<std::uint16_t>(depth);
}

Expression operation(Operator op, Span span, std::vector<Expression> args) {
    Expression result;
    result.kind = Expression::Kind::operation;
    result.op = op;
    result.span = span;
    result.args = std::move(args);
    bound_depth(result);
    return result;
}

const auto set = [](auto& context) { x3::_val(context) = std::move(x3::_attr(context)); };
const auto push = [](auto& context) { x3::_val(context).push_back(std::move(x3::_attr(context))); };
const auto set_text = [](auto& context) {
    const auto& range = x3::_attr(context);
    x3::_val(context).text.assign(range.begin(), range.end());
};
const auto set_node = [](auto& context) { x3::_val(context).node = std::move(x3::_attr(context)); };
const auto add_argument = [](auto& context) {
    x3::_val(context).args.push_back(std::move(x3::_attr(context)));
};

// Folds `lhs op rhs` to the left.
const auto fold_left = [](auto& context) {
    Expression& lhs = x3::_val(context);
    Expression& rhs = at_c<1>(x3::_attr(context));
    const Span span = join(lhs.span, rhs.span);
    lhs = operation(at_c<0>(x3::_attr(context)), span, {std::move(lhs), std::move(rhs)});
};

// Refuses a < b < c, which would compare the result of a < b, 0 or 1, with c.
const auto refuse_chain = [](auto& context) {
    const auto& range = x3::_attr(context);
    throw DiagnosticError(span_of(context, &*range.begin(), &*range.begin() + range.size()),
                          "comparisons do not chain", "write a < b and b < c");
};

// The first power of a chain collects the others; the chain is folded from the right at its end.
const auto fold_powers = [](auto& context) {
    std::vector<Expression>& chain = x3::_attr(context);
    Expression result = std::move(chain.back());
    for (std::size_t i = chain.size() - 1; i-- > 0;) {
        const Span span = join(chain[i].span, result.span);
        result = operation(Operator::power, span, {std::move(chain[i]), std::move(result)});
    }
    x3::_val(context) = std::move(result);
};

// Applies prefix operators; the innermost comes last.
const auto fold_prefixes = [](auto& context) {
    const std::vector<Operator>& prefixes = at_c<0>(x3::_attr(context));
    Expression result = std::move(at_c<1>(x3::_attr(context)));
    for (std::size_t i = prefixes.size(); i-- > 0;) {
        const Span span = result.span;
        result = operation(prefixes[i], span, {std::move(result)});
    }
    x3::_val(context) = std::move(result);
};

// x[...], x.member, x.part(...): the tail becomes the node, and its base becomes the first argument.
const auto apply_tail = [](auto& context) {
    Expression& base = x3::_val(context);
    Expression tail = std::move(x3::_attr(context));
    tail.span = join(base.span, tail.span);
    tail.args.insert(tail.args.begin(), std::move(base));
    if (tail.kind == Expression::Kind::index && tail.args.size() == 3) tail.kind = Expression::Kind::slice;
    bound_depth(tail);
    base = std::move(tail);
};

template <Expression::Kind kind>
const auto set_kind = [](auto& context) { x3::_val(context).kind = kind; };

// One expression in parentheses stands for itself; several are a product of groups.
const auto finish_parentheses = [](auto& context) {
    Expression& value = x3::_val(context);
    if (value.args.size() == 1) {
        Expression inner = std::move(value.args.front());
        value = std::move(inner);
    } else {
        value.kind = Expression::Kind::tuple;
        bound_depth(value);
    }
};
template <Expression::Kind kind>
const auto finish = [](auto& context) {
    x3::_val(context).kind = kind;
    bound_depth(x3::_val(context));
};

// Return actions that move the attribute into a member of the rule's value, or append it to one.
template <typename Member>
auto to(Member member) {
    return [member](auto& context) { x3::_val(context).*member = std::move(x3::_attr(context)); };
}
template <typename Member>
auto append_to(Member member) {
    return [member](auto& context) { (x3::_val(context).*member).push_back(std::move(x3::_attr(context))); };
}

// ---- Words -------------------------------------------------------------------------------------

const auto word_end = !(ascii::alnum | '_');

// Returns a named rule, so that "expected ..." can quote the word.
auto keyword(const char* word) {
    return x3::rule<struct KeywordId>{word} = x3::lexeme[x3::lit(word) >> word_end];
}

struct CollectiveNames : x3::symbols<Collective> {
    CollectiveNames() {
        for (const Collective collective : all_collectives) add(std::string(name_of(collective)), collective);
    }
} const collective_names;

struct ReservedWords : x3::symbols<x3::unused_type> {
    ReservedWords() {
        for (const std::string_view word : reserved) add(std::string(word));
    }
} const reserved_words;

// What stands together with a number: its sign and unit, right or wrong.
const auto quantity = x3::lexeme[x3::raw[x3::char_("0-9.+-") >> *(ascii::alnum | x3::char_("./+_-"))]];

const auto identifier =
    x3::lexeme[!(reserved_words >> word_end) >> x3::raw[(ascii::alpha | '_') >> *(ascii::alnum | '_')]];

const x3::rule<struct NameId, ast::Name> name = "a name";
const auto name_def = located(identifier[set_text]);

std::string a_collective() {
    std::string text = "a collective (";
    for (const Collective collective : all_collectives)
        text += std::string(collective == all_collectives[0]              ? ""
                            : collective == *std::rbegin(all_collectives) ? " or "
                                                                          : ", ") +
                std::string(name_of(collective));
    return text + ")";
}
const std::string a_collective_text = a_collective();
const x3::rule<struct CollectiveId, Collective> collective = a_collective_text.c_str();
const auto collective_def = x3::lexeme[collective_names >> word_end];
// The name of a collective that a file defines: its number is not known yet.
const x3::rule<struct OwnCollectiveId, ast::Name> own_collective = a_collective_text.c_str();
const auto own_collective_def = located(identifier[set_text]);
const auto set_own = [](auto& context) {
    x3::_val(context).own = std::move(x3::_attr(context));
    x3::_val(context).collective = undefined_collective;
};

// ---- Expressions -------------------------------------------------------------------------------

template <Operator op, typename Parser>
auto means(Parser parser) {
    return parser >> x3::attr(op);
}
template <Operator op>
auto word(const char* text) {
    return x3::omit[keyword(text)] >> x3::attr(op);
}

const x3::rule<struct ExpressionId, Expression> expression = "an expression";
const x3::rule<struct ConjunctionId, Expression> conjunction = "an expression";
const x3::rule<struct NegationId, Expression> negation = "an expression";
const x3::rule<struct ComparisonId, Expression> comparison = "an expression";
const x3::rule<struct ChoiceId, Expression> choice = "an expression";
const x3::rule<struct BitOrId, Expression> bit_or = "an expression";
const x3::rule<struct XorId, Expression> exclusive = "an expression";
const x3::rule<struct BitAndId, Expression> bit_and = "an expression";
const x3::rule<struct ShiftId, Expression> shift = "an expression";
const x3::rule<struct SumId, Expression> sum = "an expression";
const x3::rule<struct ProductId, Expression> product = "an expression";
const x3::rule<struct PowerId, Expression> power = "an expression";
const x3::rule<struct PrefixedId, Expression> prefixed = "an expression";
const x3::rule<struct PostfixId, Expression> postfix = "an expression";
const x3::rule<struct ArgumentId, Expression> argument = "an expression";
const x3::rule<struct LabelledId, Expression> labelled = "'name = value'";
const x3::rule<struct NumberId, Expression> number = "a number";
const x3::rule<struct RealId, Expression> real = "a number";
const x3::rule<struct NameExpressionId, Expression> named = "a name or a call";
const x3::rule<struct ParenthesesId, Expression> parentheses = "an expression in parentheses";
const x3::rule<struct IndexTailId, Expression> index_tail = "[index]";
const x3::rule<struct PartTailId, Expression> part_tail = ".part(i of n)";
const x3::rule<struct MemberTailId, Expression> member_tail = ".member";

// '+' and '-' are not operators before '>' (arrows), nor is '>' before ".." (ranges).
const x3::rule<struct ComparisonOperatorId, Operator> comparison_operator = "an operator";
const auto comparison_operator_def =
    means<Operator::equal>(x3::lit("==")) | means<Operator::not_equal>(x3::lit("!=")) |
    means<Operator::less_equal>(x3::lit("<=")) | means<Operator::greater_equal>(x3::lit(">=")) |
    means<Operator::less>(x3::lit('<')) | means<Operator::greater>(x3::lit('>') >> !x3::lit(".."));
const x3::rule<struct SumOperatorId, Operator> sum_operator = "an operator";
const auto sum_operator_def = means<Operator::add>(x3::lit('+') >> !x3::lit('>')) |
                              means<Operator::subtract>(x3::lit('-') >> !x3::lit('>'));
const x3::rule<struct ShiftOperatorId, Operator> shift_operator = "an operator";
const auto shift_operator_def =
    means<Operator::shift_left>(x3::lit("<<")) | means<Operator::shift_right>(x3::lit(">>"));
const x3::rule<struct ProductOperatorId, Operator> product_operator = "an operator";
const auto product_operator_def = means<Operator::multiply>(x3::lit('*') >> !x3::lit('*')) |
                                  means<Operator::divide>(x3::lit('/')) | word<Operator::modulo>("mod");
const x3::rule<struct MinusId, Operator> minus = "an operator";
const x3::rule<struct NotId, Operator> negation_word = "an operator";
const auto minus_def = means<Operator::negate>(x3::lit('-') >> !x3::lit('>'));
const auto negation_word_def = word<Operator::logical_not>("not");

const auto expression_def =
    nested(choice[set] | (conjunction[set] >> *(word<Operator::logical_or>("or") > conjunction)[fold_left]));
const auto choice_def =
    located(keyword("if") > expression[add_argument] > keyword("then") > expression[add_argument] >
            keyword("else") > expression[add_argument] > x3::eps[finish<Expression::Kind::choice>]);
const auto conjunction_def = negation[set] >> *(word<Operator::logical_and>("and") > negation)[fold_left];
const auto negation_def = (*negation_word >> comparison)[fold_prefixes];
const auto comparison_def = bit_or[set] >> -((comparison_operator > bit_or)[fold_left] >>
                                             -x3::raw[comparison_operator][refuse_chain]);
const auto bit_or_def = exclusive[set] >> *(means<Operator::bit_or>(x3::lit('|')) > exclusive)[fold_left];
const auto exclusive_def = bit_and[set] >> *(word<Operator::bit_xor>("xor") > bit_and)[fold_left];
const auto bit_and_def = shift[set] >> *(means<Operator::bit_and>(x3::lit('&')) > shift)[fold_left];
const auto shift_def = sum[set] >> *(shift_operator > sum)[fold_left];
const auto sum_def = product[set] >> *(sum_operator > product)[fold_left];
const auto product_def = prefixed[set] >> *(product_operator > prefixed)[fold_left];
const auto prefixed_def = (*minus >> power)[fold_prefixes];
const auto power_def = (postfix % "**")[fold_powers];
const auto postfix_def = (real[set] | number[set] | named[set] | parentheses[set]) >>
                         *(index_tail[apply_tail] | part_tail[apply_tail] | member_tail[apply_tail]);
const auto set_number = [](auto& context) {
    const auto& digits = x3::_attr(context);
    const char *first = &*digits.begin(), *last = first + digits.size();
    if (std::from_chars(first, last, x3::_val(context).number).ec != std::errc())
        throw DiagnosticError(span_of(context, first, last), "this number is larger than 2^63 - 1");
};
const auto set_real = [](auto& context) {
    const auto& digits = x3::_attr(context);
    const char *first = &*digits.begin(), *last = first + digits.size();
    x3::_val(context).kind = Expression::Kind::real;
    if (std::from_chars(first, last, x3::_val(context).real).ec != std::errc())
        throw DiagnosticError(span_of(context, first, last), "this number is out of range",
                              "numbers with a point or an exponent lie between 1e-307 and 1e308");
};
// A fraction needs a digit after the point, because `0..` begins a range.
const auto fraction = '.' >> +ascii::digit;
const auto exponent = ascii::char_("eE") >> -ascii::char_("+-") >> +ascii::digit;
const auto real_def =
    located(x3::lexeme[x3::raw[+ascii::digit >> ((fraction >> -exponent) | exponent)][set_real] >> word_end]);
const auto number_def = located(x3::lexeme[x3::raw[+ascii::digit][set_number] >> !(ascii::alpha | '_')]);
const auto named_def =
    located(x3::eps[set_kind<Expression::Kind::name>] >> identifier[set_text] >>
            -('(' > (argument[add_argument] % ',') > x3::lit(')')[finish<Expression::Kind::call>]));
const auto argument_def = labelled[set] | expression[set];
const auto labelled_def = located(identifier[set_text] >> '=' >> !x3::lit('=') > expression[add_argument] >
                                  x3::eps[finish<Expression::Kind::labelled>]);
const auto parentheses_def =
    located('(' > (expression[add_argument] % ',') > x3::lit(')')[finish_parentheses]);
const auto index_tail_def = located('[' > x3::eps[set_kind<Expression::Kind::index>] >
                                    expression[add_argument] > -("..<" > expression[add_argument]) > ']');
const auto part_tail_def =
    located('.' >> x3::omit[keyword("part")] >> '(' > x3::eps[set_kind<Expression::Kind::part>] >
            expression[add_argument] > keyword("of") > expression[add_argument] > ')');
const auto member_tail_def =
    located('.' >> !x3::lit('.') > x3::eps[set_kind<Expression::Kind::member>] > identifier[set_text]);

BOOST_SPIRIT_DEFINE(name, collective, own_collective, comparison_operator, shift_operator, sum_operator,
                    product_operator, minus, negation_word, expression, choice, conjunction, negation,
                    comparison, bit_or, exclusive, bit_and, shift, sum, product, power, prefixed, postfix,
                    argument, labelled, real, number, named, parentheses, index_tail, part_tail, member_tail)

// ---- Statements --------------------------------------------------------------------------------

const x3::rule<struct RangeId, ast::Range> range = "a range or a group";
const x3::rule<struct BindingId, ast::Binding> binding = "'name in range'";
const x3::rule<struct StatementId, ast::Statement> statement = "a statement";
const x3::rule<struct BodyId, std::vector<ast::Statement>> body = "a statement or a block";
const x3::rule<struct EachBodyId, std::vector<ast::Statement>> each_body = "a transfer, 'if' or a block";
const x3::rule<struct BlockId, std::vector<ast::Statement>> block = "a block in braces";
const x3::rule<struct BareBlockId, ast::Block> bare_block = "a block in braces";
const x3::rule<struct ForId, ast::For> for_loop = "for";
const x3::rule<struct EachId, ast::Each> each = "each";
const x3::rule<struct ParallelId, ast::Parallel> parallel = "parallel";
const x3::rule<struct LetId, ast::Let> let = "let";
const x3::rule<struct IfId, ast::If> if_statement = "if";
const x3::rule<struct ComposeId, ast::Compose> compose = "a collective";
const x3::rule<struct TransferId, ast::Transfer> transfer = "a transfer";
const x3::rule<struct PartitionId, ast::Partition> partition = "partition";
const x3::rule<struct StateId, ast::State> state = "state";
const x3::rule<struct AssignId, ast::Assign> assign = "an assignment";
const x3::rule<struct ArrowId, bool> arrow = "'->' or '+>'";

template <ast::Range::Kind kind>
const auto set_range = [](auto& context) {
    x3::_val(context).kind = kind;
    x3::_val(context).last = std::move(x3::_attr(context));
};

const auto range_def =
    located(expression[to(&ast::Range::first)] >> -(("..<" > expression)[set_range<ast::Range::Kind::up>] |
                                                    (">.." > expression)[set_range<ast::Range::Kind::down>]));
const auto binding_def = name[to(&ast::Binding::name)] > keyword("in") > range[to(&ast::Binding::range)];
const auto block_def = '{' > *statement[push] > '}';
const auto body_def = block[set] | statement[push];
const auto each_body_def = !keyword("let") >> body[set];
const auto bare_block_def = block[to(&ast::Block::body)];
const auto for_loop_def = keyword("for") > binding[to(&ast::For::binding)] > body[to(&ast::For::body)];
const auto each_def = keyword("each") > (binding[append_to(&ast::Each::bindings)] % ',') >
                      *let[append_to(&ast::Each::lets)] >
                      -(keyword("where") >
                        expression[to(&ast::Each::where)]) > each_body[to(&ast::Each::body)];
const auto parallel_def =
    keyword("parallel") > binding[to(&ast::Parallel::binding)] > body[to(&ast::Parallel::body)];
const auto let_def = keyword("let") > name[to(&ast::Let::name)] >
                     -('(' > (name[append_to(&ast::Let::parameters)] % ',') > ')') >
                     '=' > expression[to(&ast::Let::value)];
const auto if_statement_def = keyword("if") > expression[to(&ast::If::condition)] > body[to(&ast::If::body)] >
                              -(keyword("else") > body[to(&ast::If::otherwise)]);
// Names of collectives may also name buffers, parameters and algorithms. A word of another language may stand
// before a name, too, so the name of a file's collective is one if `over` follows.
const auto begins_composition = &(identifier >> x3::omit[postfix] >> keyword("over"));
const auto compose_def = ((collective[to(&ast::Compose::collective)] >> !x3::char_(":[.=")) |
                          (begins_composition >> own_collective[set_own])) >
                         postfix[to(&ast::Compose::region)] >
                         keyword("over") > postfix[to(&ast::Compose::group)] >
                         -((keyword("from") > expression[to(&ast::Compose::from)]) |
                           (keyword("to") > expression[to(&ast::Compose::to)])) >
                         -(keyword("using") > postfix[to(&ast::Compose::algorithm)]) >
                         -(keyword("as") > postfix[to(&ast::Compose::format)] >
                           -(keyword("keeping") > named[to(&ast::Compose::kept)]));
const auto arrow_def = (x3::lit("->") >> x3::attr(false)) | (x3::lit("+>") >> x3::attr(true));
// An expression after the arrow is a place if a rank follows it.
const auto end_at_target = [](auto& context) {
    ast::Transfer& transfer = x3::_val(context);
    transfer.target = std::move(transfer.destination);
    transfer.destination = std::move(x3::_attr(context));
};
const auto transfer_def = postfix[to(&ast::Transfer::region)] > ':' > expression[to(&ast::Transfer::source)] >
                          arrow[to(&ast::Transfer::combines)] > expression[to(&ast::Transfer::destination)] >
                          -(':' > expression[end_at_target]);
const auto partition_def = keyword("partition") > postfix[to(&ast::Partition::region)] >
                           keyword("over") > postfix[to(&ast::Partition::group)];
const auto state_def = keyword("state") > name[to(&ast::State::name)] >
                       keyword("like") > postfix[to(&ast::State::like)];
const auto assign_def =
    named[to(&ast::Assign::target)] >> '=' >> !x3::lit('=') > expression[to(&ast::Assign::value)];
const auto statement_def =
    located(nested(bare_block[set_node] | for_loop[set_node] | each[set_node] | parallel[set_node] |
                   let[set_node] | if_statement[set_node] | partition[set_node] | state[set_node] |
                   assign[set_node] | compose[set_node] | transfer[set_node]));

BOOST_SPIRIT_DEFINE(range, binding, statement, body, each_body, block, bare_block, for_loop, each, parallel,
                    let, if_statement, partition, state, assign, compose, transfer, arrow)

// ---- Definitions -------------------------------------------------------------------------------

const x3::rule<struct ParameterId, ast::Parameter> parameter = "'name = default'";
const x3::rule<struct ScheduleParameterId, ast::Parameter> schedule_parameter = "a parameter";
const x3::rule<struct ApproximateId, bool> approximate = "approximate";
const x3::rule<struct LossyId, bool> lossy = "lossy";
const x3::rule<struct AlgorithmHeadId, ast::Algorithm> algorithm_head = "an algorithm";
const x3::rule<struct AlgorithmId, ast::Algorithm> algorithm = "an algorithm";
const x3::rule<struct ScheduleHeadId, ast::Schedule> schedule_head = "a schedule";
const x3::rule<struct ScheduleId, ast::Schedule> schedule = "a schedule";
const x3::rule<struct PropertyId, ast::Property> property = "medium, latency, bandwidth, shared by or nic";
const x3::rule<struct TimeId, double> time_value = "a time such as 3us";
const x3::rule<struct RateId, double> rate_value = "a rate such as 25Gb/s";
const x3::rule<struct NicId, ast::Name> nic = "a network interface or a subnet";
const x3::rule<struct LevelId, ast::Level> level = "level";
const x3::rule<struct TopologyForId, ast::TopologyFor> topology_for = "for";
const x3::rule<struct TopologyStatementId, ast::TopologyStatement> topology_statement =
    "a level or a for loop";
const x3::rule<struct TopologyBodyId, std::vector<ast::TopologyStatement>> topology_body = "levels";
const x3::rule<struct CombinesId, bool> combines = "combined";
const x3::rule<struct WantedId, ast::Wanted> wanted =
    "what the place holds: x : member, or combined x : members";
const x3::rule<struct ClaimId, ast::Claim> held_claim = "a place: x : member";
const x3::rule<struct WantedClaimId, ast::Claim> wanted_claim = "a place and what it holds: x : member = ...";
const x3::rule<struct BeforeId, ast::Clause> before = "before";
const x3::rule<struct AfterId, ast::Clause> after = "after";
const x3::rule<struct CollectiveEndId> collective_end = "'before', 'after' or '}'";
const x3::rule<struct CollectiveHeadId, ast::CollectiveDefinition> collective_head = "a collective";
const x3::rule<struct CollectiveDefinitionId, ast::CollectiveDefinition> collective_definition =
    "a collective";
const x3::rule<struct TopologyHeadId, ast::TopologyDefinition> topology_head = "a topology";
const x3::rule<struct TopologyId, ast::TopologyDefinition> topology = "a topology";
const x3::rule<struct CommutativeId, bool> commutative = "commutative";
const x3::rule<struct AssociativeId, bool> associative = "associative";
const x3::rule<struct OperatorHeadId, ast::OperatorDefinition> operator_head = "an operator";
const x3::rule<struct OperatorDefinitionId, ast::OperatorDefinition> operator_definition = "an operator";
const x3::rule<struct UpdateStatementId, ast::Statement> update_statement = "state, let or an assignment";
const x3::rule<struct UpdateStatementsId, std::vector<ast::Statement>> update_statements = "statements";
const x3::rule<struct UpdateEndId> update_end = "'state', 'let', an assignment or '}'";
const x3::rule<struct UpdateHeadId, ast::UpdateDefinition> update_head = "an update";
const x3::rule<struct UpdateId, ast::UpdateDefinition> update = "an update";
const x3::rule<struct PathId, ast::Name> path = "a path in quotes";
const x3::rule<struct ImportId, ast::Import> import = "import";
const x3::rule<struct FileId, ast::File> source_file =
    "algorithm, collective, import, operator, schedule, topology or update";

template <ast::Property::Kind kind>
const auto set_property = [](auto& context) {
    x3::_val(context).kind = kind;
    if constexpr (std::is_same_v<std::decay_t<decltype(x3::_attr(context))>, double>)
        x3::_val(context).value = x3::_attr(context);
    else
        x3::_val(context).text = std::move(x3::_attr(context).text);
};
template <double (*read)(std::string_view)>
const auto set_quantity = [](auto& context) {
    const auto& found = x3::_attr(context);
    x3::_val(context) = quantity_at(span_of(context, found.begin(), found.end()), read);
};

const auto parameter_def = name[to(&ast::Parameter::name)] > '=' > expression[to(&ast::Parameter::value)];
const auto schedule_parameter_def = name[to(&ast::Parameter::name)] >
                                    -('=' > expression[to(&ast::Parameter::value)]);
const auto approximate_def = keyword("approximate") >> x3::attr(true);
const auto lossy_def = keyword("lossy") >> x3::attr(true);
// Stores the second name of an algorithm's header: the target of an exchange, otherwise the root.
const auto set_second = [](auto& context) {
    ast::Algorithm& algorithm = x3::_val(context);
    (algorithm.own                                   ? algorithm.second
     : contract_of(algorithm.collective).exchanges() ? algorithm.target
                                                     : algorithm.root) = std::move(x3::_attr(context));
};
const auto algorithm_head_def =
    located(keyword("algorithm") > name[to(&ast::Algorithm::name)] >
            (collective[to(&ast::Algorithm::collective)] | own_collective[set_own]) > '(' >
            name[to(&ast::Algorithm::buffer)] > -(',' > name[set_second]) >
            -(';' > (parameter[append_to(&ast::Algorithm::parameters)] % ',')) > ')' > keyword("over") >
            name[to(&ast::Algorithm::group)] > -(keyword("where") > expression[to(&ast::Algorithm::where)]));
const auto algorithm_def = algorithm_head[set] > block[to(&ast::Algorithm::body)];
const auto schedule_head_def =
    located(keyword("schedule") > name[to(&ast::Schedule::name)] >
            (collective[to(&ast::Schedule::collective)] | own_collective[set_own]) > '(' >
            name[to(&ast::Schedule::buffer)] > -(',' > name[to(&ast::Schedule::root)]) >
            -(';' > (schedule_parameter[append_to(&ast::Schedule::parameters)] % ',')) > ')' >
            -(keyword("with") > (name[append_to(&ast::Schedule::given)] % ',')) >
            *(approximate[to(&ast::Schedule::approximate)] | lossy[to(&ast::Schedule::lossy)]) >
            -(keyword("where") > expression[to(&ast::Schedule::where)]));
const auto schedule_def = schedule_head[set] > block[to(&ast::Schedule::body)];

// A buffer may be called `combined`, too.
const auto combines_def = keyword("combined") >> !x3::char_(":[") >> x3::attr(true);
const auto names_member = &(identifier >> keyword("in"));
const auto wanted_def = -combines[to(&ast::Wanted::combines)] >> postfix[to(&ast::Wanted::region)] > ':' >
                        -(names_member > name[to(&ast::Wanted::member)] >
                          keyword("in")) > range[to(&ast::Wanted::members)] >
                        -(keyword("where") > expression[to(&ast::Wanted::where)]);
const auto held_claim_def =
    located(postfix[to(&ast::Claim::region)] > ':' > expression[to(&ast::Claim::member)]);
const auto wanted_claim_def =
    located(postfix[to(&ast::Claim::region)] > ':' > expression[to(&ast::Claim::member)] > '=' >
            wanted[to(&ast::Claim::wanted)]);
const auto clause_head =
    -(keyword("each") > (binding[append_to(&ast::Clause::bindings)] % ',') >
      *let[append_to(&ast::Clause::lets)] > -(keyword("where") > expression[to(&ast::Clause::where)]));
const auto add_claim = append_to(&ast::Clause::claims);
const auto before_def =
    located(keyword("before") > clause_head > (held_claim[add_claim] | ('{' > *held_claim[add_claim] > '}')));
const auto set_after = [](auto& context) { x3::_val(context).is_after = true; };
const auto after_def = located(keyword("after") > x3::eps[set_after] > clause_head >
                               (wanted_claim[add_claim] | ('{' > *wanted_claim[add_claim] > '}')));
const auto collective_end_def = x3::lit('}');
const auto collective_head_def = located(
    keyword("collective") > name[to(&ast::CollectiveDefinition::name)] > '(' >
    name[to(&ast::CollectiveDefinition::buffer)] > -(',' > name[to(&ast::CollectiveDefinition::root)]) > ')' >
    keyword("over") > name[to(&ast::CollectiveDefinition::group)] >
    -(keyword("where") > expression[to(&ast::CollectiveDefinition::where)]));
const auto add_clause = append_to(&ast::CollectiveDefinition::clauses);
const auto collective_definition_def = collective_head[set] > '{' >
                                       *let[append_to(&ast::CollectiveDefinition::lets)] >
                                       *(before[add_clause] | after[add_clause]) > collective_end;

const auto time_value_def = quantity[set_quantity<parse_time>];
const auto rate_value_def = quantity[set_quantity<parse_rate>];
// Names of interfaces, such as enp3s0f0.100, and 10.0.1.0/24 or fd00:1::/64.
const auto nic_def = located(x3::lexeme[x3::raw[+(ascii::alnum | x3::char_("._:/-"))]][set_text]);
const auto property_def =
    located((keyword("medium") > name[set_property<ast::Property::Kind::medium>]) |
            (keyword("latency") > time_value[set_property<ast::Property::Kind::latency>]) |
            (keyword("bandwidth") > rate_value[set_property<ast::Property::Kind::bandwidth>]) |
            (keyword("shared") > keyword("by") > name[set_property<ast::Property::Kind::shared_by>]) |
            (keyword("nic") > nic[set_property<ast::Property::Kind::nic>]));
const auto level_def = keyword("level") > name[to(&ast::Level::name)] > '[' >
                       expression[to(&ast::Level::size)] > ']' > '{' >
                       *property[append_to(&ast::Level::properties)] > '}';
const auto topology_for_def =
    keyword("for") > binding[to(&ast::TopologyFor::binding)] > topology_body[to(&ast::TopologyFor::body)];
const auto topology_statement_def = located(nested(level[set_node] | topology_for[set_node]));
const auto topology_body_def = ('{' > *topology_statement[push] > '}') | topology_statement[push];
const auto topology_head_def =
    located(keyword("topology") > name[to(&ast::TopologyDefinition::name)] >
            -('(' > (parameter[append_to(&ast::TopologyDefinition::parameters)] % ',') > ')'));
const auto topology_def =
    topology_head[set] > '{' > *topology_statement[append_to(&ast::TopologyDefinition::body)] > '}';
const auto commutative_def = keyword("commutative") >> x3::attr(true);
const auto associative_def = keyword("associative") >> x3::attr(true);
const auto set_commutative = to(&ast::OperatorDefinition::commutative);
const auto set_associative = to(&ast::OperatorDefinition::associative);
const auto operator_head_def =
    located(keyword("operator") > name[to(&ast::OperatorDefinition::name)] > '(' >
            name[to(&ast::OperatorDefinition::first)] > ',' > name[to(&ast::OperatorDefinition::second)] >
            ')' > -((commutative[set_commutative] >> -associative[set_associative]) |
                    (associative[set_associative] >> -commutative[set_commutative])));
const auto operator_definition_def =
    operator_head[set] > '=' > expression[to(&ast::OperatorDefinition::value)];
const auto update_statement_def = located(let[set_node] | state[set_node] | assign[set_node]);
const auto update_statements_def = *update_statement[push];
const auto update_end_def = x3::lit('}');
const auto update_head_def =
    located(keyword("update") > name[to(&ast::UpdateDefinition::name)] >
            -('(' > (schedule_parameter[append_to(&ast::UpdateDefinition::parameters)] % ',') > ')'));
const auto update_def =
    update_head[set] > '{' > update_statements[to(&ast::UpdateDefinition::body)] > update_end;
const auto path_def = located(x3::lexeme['"' >> x3::raw[+(x3::char_ - '"' - '\n')][set_text] >> '"']);
const auto import_def = located(keyword("import") > path[to(&ast::Import::path)]);
const auto source_file_def =
    *(import[append_to(&ast::File::imports)] | collective_definition[append_to(&ast::File::collectives)] |
      algorithm[append_to(&ast::File::algorithms)] | schedule[append_to(&ast::File::schedules)] |
      topology[append_to(&ast::File::topologies)] | operator_definition[append_to(&ast::File::operators)] |
      update[append_to(&ast::File::updates)]);

BOOST_SPIRIT_DEFINE(combines, wanted, held_claim, wanted_claim, before, after, collective_end,
                    collective_head, collective_definition)
BOOST_SPIRIT_DEFINE(parameter, schedule_parameter, approximate, lossy, algorithm_head, algorithm,
                    schedule_head, schedule, property, time_value, rate_value, nic, level, topology_for,
                    topology_statement, topology_body, topology_head, topology, commutative, associative,
                    operator_head, operator_definition, update_statement, update_statements, update_end,
                    update_head, update, path, import, source_file)

}  // namespace hocket::dsl::grammar
