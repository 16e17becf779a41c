#include "dsl/syntax/spacing.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "dsl/base/collective.hpp"
#include "dsl/syntax/words.hpp"

namespace hocket::dsl {
namespace {

template <std::size_t count>
bool is_one_of(const Token& token, const std::string_view (&texts)[count]) {
    return std::any_of(std::begin(texts), std::end(texts),
                       [&](std::string_view text) { return token.is(text); });
}

constexpr std::string_view tight_after[] = {"(", "[", ".", "**"};
constexpr std::string_view tight_before[] = {")", "]", ",", ";", ".", "**"};
constexpr std::string_view column_marks[] = {"{", "=", ":", "->", "+>"};
constexpr std::string_view property_words[] = {"medium", "latency", "bandwidth", "shared", "nic"};

bool is_collective(const Token& token) {
    return token.kind == Token::Kind::word &&
           std::any_of(std::begin(all_collectives), std::end(all_collectives),
                       [&](Collective collective) { return token.text == name_of(collective); });
}

bool is_name(const Token& token) {
    return token.kind == Token::Kind::word && !is_reserved(token.text);
}

}  // namespace

std::size_t Spacing::between(const Token& last, const Token& next, bool starts_statement) const {
    if (last.is("{")) return next.is("}") ? 0 : 1;
    if (starts_statement) return 1;
    if (is_one_of(last, tight_after) || is_one_of(next, tight_before) || is_prefix_) return 0;
    // A call, an index: a name stands before them.
    if (next.is("(")) return is_name(last) && !is_collective_ ? 0 : 1;
    if (next.is("[")) return ends_operand_ && !is_collective_ ? 0 : 1;
    return 1;
}

void Spacing::pass(const Token& token, bool starts_statement) {
    is_prefix_ = token.is("-") && !ends_operand_;
    ends_operand_ = is_name(token) || token.kind == Token::Kind::number || token.kind == Token::Kind::value ||
                    token.is(")") || token.is("]");
    is_collective_ = starts_statement && is_collective(token);
}

bool makes_columns(const Token& token) {
    return (token.kind == Token::Kind::word && is_reserved(token.text)) || is_one_of(token, column_marks) ||
           is_one_of(token, property_words);
}

}  // namespace hocket::dsl
