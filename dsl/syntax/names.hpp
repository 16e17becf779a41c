// That every name means one thing where it stands.
#pragma once

#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Throws DiagnosticError for a name that is made where the same one is already known, or that is one of the
// language's own (`levels`, `world`, `ranks`). Names of levels are the topology's: a schedule need not know
// them, and may use them for something else.
void check_names(const ast::File& file);

}  // namespace hocket::dsl
