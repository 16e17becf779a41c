// Syntax tree -> update.
#pragma once

#include <span>
#include <vector>

#include "dsl/graph/update.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// The values of the parameters, in order: the call's arguments by position, then the defaults. Throws
// DiagnosticError if one is missing, or is no number.
std::vector<double> update_arguments(const ast::UpdateDefinition& definition, const ast::Expression& call);

// The defaults, and 1 for a parameter without one: to look at a definition that nobody has called.
std::vector<double> sample_arguments(const ast::UpdateDefinition& definition);

// arguments: a value for each parameter. Throws DiagnosticError for what an update cannot do. The result does
// not depend on the syntax tree.
Update build_update(const ast::UpdateDefinition& definition, std::span<const double> arguments);

}  // namespace hocket::dsl
