// Parses text to a syntax tree (Boost.Spirit X3).
#pragma once

#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Throws DiagnosticError at the first syntax error. The tree's spans point into `file`.
ast::File parse(const SourceFile& file);

// Parses the statements of an update without a header: "w = w - 0.1 * g / workers". The text becomes the
// update's name. Throws like parse().
ast::UpdateDefinition parse_update(const SourceFile& text);

// Parses a reference as users give it on a command line: a name, or a call whose arguments are expressions:
// "blueconnect", "flat(ring, doubling)", "bcube(3, 2)".
ast::Expression parse_reference(const SourceFile& text);

}  // namespace hocket::dsl
