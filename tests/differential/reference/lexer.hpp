// Divides a text into words, numbers and symbols.
#pragma once

#include <string>
#include <vector>

#include "tests/differential/reference/syntax.hpp"

namespace hocket::reference {

struct Token {
    enum class Form { word, number, symbol, end } form = Form::end;
    std::string text;
    Position at;
};

// The last token is of the form `end`.
std::vector<Token> tokens_of(const std::string& text);

}  // namespace hocket::reference
