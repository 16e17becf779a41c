// Checks that every name has one meaning where it stands.
#pragma once

#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Throws DiagnosticError for a name that is defined where the same name is already known, or that is one of
// the language's own (`levels`, `world`, `ranks`). The names of levels belong to the topology: a schedule
// need not know them, and may use them for something else.
void check_names(const ast::File& file);

}  // namespace hocket::dsl
