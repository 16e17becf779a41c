// The one way to lay out a schedule file's text.
#pragma once

#include <string>

#include "dsl/base/source.hpp"

namespace hocket::dsl {

// Returns the text with its tokens and comments as they are, in the same order, and with the library's
// indentation and spaces. Line breaks stay where they are, except at braces: the statements of a block that
// has several lines stand on lines of their own, and '{' and "else" on the line before them. Of blank lines
// one is left. Wider gaps stay where they make columns with other lines. A formatted text stays as it is.
// Throws DiagnosticError for a text that does not parse.
std::string formatted(const SourceFile& file);

}  // namespace hocket::dsl
