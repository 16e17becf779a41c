// Text -> syntax tree (Boost.Spirit X3).
#pragma once

#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Throws DiagnosticError at the first place that is not in the language. The tree's spans point into `file`.
ast::File parse(const SourceFile& file);

// The statements of an update, without a header: "w = w - 0.1 * g / workers". They are its name. Throws as
// parse().
ast::UpdateDefinition parse_update(const SourceFile& text);

// A reference as users give it on a command line: "blueconnect", "flat(ring, doubling)", "bcube(3, 2)": a
// name or a call whose arguments are expressions.
ast::Expression parse_reference(const SourceFile& text);

}  // namespace hocket::dsl
