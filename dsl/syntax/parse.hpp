// Text -> syntax tree (Boost.Spirit X3).
#pragma once

#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Throws DiagnosticError at the first place that is not in the language. The tree's spans point into `file`.
ast::File parse(const SourceFile& file);

// A reference as users give it on a command line: "blueconnect", "flat(ring, doubling)", "bcube(3, 2)": a
// name or a call whose arguments are expressions.
ast::Expression parse_reference(const SourceFile& text);

}  // namespace hocket::dsl
