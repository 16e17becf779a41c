// The spaces between the tokens of a line.
#pragma once

#include <cstddef>

#include "dsl/syntax/tokens.hpp"

namespace hocket::dsl {

// Follows the tokens of a text that parses.
class Spacing {
  public:
    // Returns the spaces between the token that was passed last and the next one. starts_statement: the next
    // one begins a statement, a definition or a property.
    std::size_t between(const Token& last, const Token& next, bool starts_statement) const;
    void pass(const Token& token, bool starts_statement);

    // The last token was a collective that begins a statement.
    bool is_after_collective() const { return is_collective_; }

  private:
    bool is_prefix_ = false;  // the last token was the sign of a number or an expression
    bool ends_operand_ = false;
    bool is_collective_ = false;
};

// Tokens that stand under each other in lines that are alike.
bool makes_columns(const Token& token);

}  // namespace hocket::dsl
