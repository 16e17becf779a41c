// The common part of the parsers of expressions, of statements and of definitions: a place in the tokens.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/differential/reference/lexer.hpp"

namespace hocket::reference {

class TokenReader {
  public:
    explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

    const Token& here() const { return tokens_[place_]; }
    // The token `distance` further on, or the end.
    const Token& ahead(std::size_t distance) const {
        return tokens_[std::min(place_ + distance, tokens_.size() - 1)];
    }
    bool ended() const { return here().form == Token::Form::end; }
    bool at(std::string_view text) const { return !ended() && here().text == text; }

    Token take() {
        const Token token = here();
        if (!ended()) ++place_;
        return token;
    }

    bool accept(std::string_view text) {
        if (!at(text)) return false;
        take();
        return true;
    }

    void expect(std::string_view text) {
        if (!accept(text)) fail("'" + std::string(text) + "'");
    }

    // A word of the language cannot be a name.
    Token expect_name();

    [[noreturn]] void fail(const std::string& wanted) const {
        refuse(here().at, "expected " + wanted + ", not '" + here().text + "'");
    }

  private:
    std::vector<Token> tokens_;
    std::size_t place_ = 0;
};

// Keeps texts that nest without end from using up the stack.
class Nesting {
  public:
    Nesting(int& depth, Position at) : depth_(depth) {
        if (++depth_ > 200) refuse(at, "too large: nested too deep");
    }
    ~Nesting() { --depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

  private:
    int& depth_;
};

// One member function for each of the grammar's levels, from the loosest operator to the tightest.
class ExpressionParser {
  public:
    explicit ExpressionParser(TokenReader& tokens) : tokens_(tokens) {}

    Expression expression();
    // Only the expressions that bind tightest: a name, `levels[i]`, `(inner, outer)`.
    Expression postfix();

  private:
    Expression choice();
    Expression conjunction();
    Expression negation();
    Expression comparison();
    Expression bit_or();
    Expression exclusive_or();
    Expression bit_and();
    Expression shift();
    Expression sum();
    Expression product();
    Expression prefix();
    Expression power();
    Expression primary();
    Expression number();
    Expression name_or_call();
    Expression parenthesized();

    TokenReader& tokens_;
    int depth_ = 0;
};

}  // namespace hocket::reference
