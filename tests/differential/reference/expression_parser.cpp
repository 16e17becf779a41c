#include <algorithm>
#include <array>
#include <charconv>

#include "tests/differential/reference/tokens.hpp"

namespace hocket::reference {
namespace {

// Collectives' names are not among them: they may be names of other things, too.
constexpr std::array<std::string_view, 22> words_of_the_language = {
    "algorithm", "schedule", "topology", "over", "where", "each", "for", "parallel", "let", "in",   "of",
    "using",     "from",     "to",       "and",  "or",    "not",  "xor", "mod",      "if",  "then", "else",
};

bool is_word_of_the_language(std::string_view word) {
    return std::find(words_of_the_language.begin(), words_of_the_language.end(), word) !=
           words_of_the_language.end();
}

Expression make(Form form, Position at, std::vector<Expression> operands) {
    Expression result;
    result.form = form;
    result.at = at;
    result.operands = std::move(operands);
    for (const Expression& operand : result.operands) {
        result.depth = std::max(result.depth, operand.depth + 1);
    }
    if (result.depth > 1000) refuse(at, "too large: an expression with more than 1000 levels of operators");
    return result;
}

Expression binary(Form form, Position at, Expression left, Expression right) {
    std::vector<Expression> operands;
    operands.push_back(std::move(left));
    operands.push_back(std::move(right));
    return make(form, at, std::move(operands));
}

Expression unary(Form form, Position at, Expression operand) {
    std::vector<Expression> operands;
    operands.push_back(std::move(operand));
    return make(form, at, std::move(operands));
}

}  // namespace

Token TokenReader::expect_name() {
    if (here().form != Token::Form::word || is_word_of_the_language(here().text)) fail("a name");
    return take();
}

Expression ExpressionParser::expression() {
    const Nesting nesting(depth_, tokens_.here().at);
    if (tokens_.at("if")) return choice();
    Expression left = conjunction();
    while (tokens_.at("or")) {
        const Position at = tokens_.take().at;
        left = binary(Form::logical_or, at, std::move(left), conjunction());
    }
    return left;
}

Expression ExpressionParser::choice() {
    const Position at = tokens_.take().at;
    std::vector<Expression> operands;
    operands.push_back(expression());
    tokens_.expect("then");
    operands.push_back(expression());
    tokens_.expect("else");
    operands.push_back(expression());
    return make(Form::choice, at, std::move(operands));
}

Expression ExpressionParser::conjunction() {
    Expression left = negation();
    while (tokens_.at("and")) {
        const Position at = tokens_.take().at;
        left = binary(Form::logical_and, at, std::move(left), negation());
    }
    return left;
}

Expression ExpressionParser::negation() {
    const Nesting nesting(depth_, tokens_.here().at);
    if (!tokens_.at("not")) return comparison();
    const Position at = tokens_.take().at;
    return unary(Form::logical_not, at, negation());
}

Expression ExpressionParser::comparison() {
    static constexpr std::array<std::pair<std::string_view, Form>, 6> operators = {{
        {"==", Form::equal},
        {"!=", Form::not_equal},
        {"<", Form::less},
        {"<=", Form::less_equal},
        {">", Form::greater},
        {">=", Form::greater_equal},
    }};
    const auto here = [this] {
        return std::find_if(operators.begin(), operators.end(),
                            [this](const auto& candidate) { return tokens_.at(candidate.first); });
    };
    Expression left = bit_or();
    const auto found = here();
    if (found == operators.end()) return left;
    const Position at = tokens_.take().at;
    Expression result = binary(found->second, at, std::move(left), bit_or());
    if (here() != operators.end()) refuse(tokens_.here().at, "comparisons do not chain");
    return result;
}

Expression ExpressionParser::bit_or() {
    Expression left = exclusive_or();
    while (tokens_.at("|")) {
        const Position at = tokens_.take().at;
        left = binary(Form::bit_or, at, std::move(left), exclusive_or());
    }
    return left;
}

Expression ExpressionParser::exclusive_or() {
    Expression left = bit_and();
    while (tokens_.at("xor")) {
        const Position at = tokens_.take().at;
        left = binary(Form::exclusive_or, at, std::move(left), bit_and());
    }
    return left;
}

Expression ExpressionParser::bit_and() {
    Expression left = shift();
    while (tokens_.at("&")) {
        const Position at = tokens_.take().at;
        left = binary(Form::bit_and, at, std::move(left), shift());
    }
    return left;
}

Expression ExpressionParser::shift() {
    Expression left = sum();
    while (tokens_.at("<<") || tokens_.at(">>")) {
        const Token sign = tokens_.take();
        const Form form = sign.text == "<<" ? Form::shift_left : Form::shift_right;
        left = binary(form, sign.at, std::move(left), sum());
    }
    return left;
}

Expression ExpressionParser::sum() {
    Expression left = product();
    while (tokens_.at("+") || tokens_.at("-")) {
        const Token sign = tokens_.take();
        const Form form = sign.text == "+" ? Form::add : Form::subtract;
        left = binary(form, sign.at, std::move(left), product());
    }
    return left;
}

Expression ExpressionParser::product() {
    Expression left = prefix();
    while (tokens_.at("*") || tokens_.at("/") || tokens_.at("mod")) {
        const Token sign = tokens_.take();
        const Form form = sign.text == "*" ? Form::multiply : sign.text == "/" ? Form::divide : Form::modulo;
        left = binary(form, sign.at, std::move(left), prefix());
    }
    return left;
}

Expression ExpressionParser::prefix() {
    const Nesting nesting(depth_, tokens_.here().at);
    if (!tokens_.at("-")) return power();
    const Position at = tokens_.take().at;
    return unary(Form::negate, at, prefix());
}

Expression ExpressionParser::power() {
    const Nesting nesting(depth_, tokens_.here().at);
    Expression base = postfix();
    if (!tokens_.at("**")) return base;
    const Position at = tokens_.take().at;
    return binary(Form::power, at, std::move(base), power());
}

Expression ExpressionParser::postfix() {
    Expression left = primary();
    while (tokens_.at(".") || tokens_.at("[")) {
        const Token sign = tokens_.take();
        if (sign.text == ".") {
            const std::string name = tokens_.expect_name().text;
            left = unary(Form::member, sign.at, std::move(left));
            left.name = name;
        } else {
            left = binary(Form::index, sign.at, std::move(left), expression());
            tokens_.expect("]");
        }
    }
    return left;
}

Expression ExpressionParser::primary() {
    if (tokens_.here().form == Token::Form::number) return number();
    if (tokens_.at("(")) return parenthesized();
    return name_or_call();
}

Expression ExpressionParser::number() {
    const Token token = tokens_.take();
    Expression result = make(Form::number, token.at, {});
    const char* end = token.text.data() + token.text.size();
    if (std::from_chars(token.text.data(), end, result.number).ec != std::errc()) {
        refuse(token.at, "overflow: a number of more than 64 bits");
    }
    return result;
}

Expression ExpressionParser::parenthesized() {
    const Position at = tokens_.take().at;
    std::vector<Expression> operands;
    do operands.push_back(expression());
    while (tokens_.accept(","));
    tokens_.expect(")");
    if (operands.size() == 1) return std::move(operands[0]);
    return make(Form::tuple, at, std::move(operands));
}

Expression ExpressionParser::name_or_call() {
    const Token name = tokens_.expect_name();
    std::vector<Expression> operands;
    const bool is_call = tokens_.accept("(");
    if (is_call) {
        do operands.push_back(expression());
        while (tokens_.accept(","));
        tokens_.expect(")");
    }
    Expression result = make(is_call ? Form::call : Form::name, name.at, std::move(operands));
    result.name = name.text;
    return result;
}

}  // namespace hocket::reference
