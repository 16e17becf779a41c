// Builds an update from its syntax tree.
#pragma once

#include <span>
#include <vector>

#include "dsl/graph/update.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Returns the values of the parameters, in order: the call's arguments by position, then the defaults. Throws
// DiagnosticError if one is missing, or is not a number.
std::vector<double> update_arguments(const ast::UpdateDefinition& definition, const ast::Expression& call);

// Returns the defaults, and 1 for a parameter without one, to check a definition without a call.
std::vector<double> sample_arguments(const ast::UpdateDefinition& definition);

// arguments: a value for each parameter. Throws DiagnosticError for anything that an update cannot do. The
// result does not depend on the syntax tree.
Update build_update(const ast::UpdateDefinition& definition, std::span<const double> arguments);

}  // namespace hocket::dsl
