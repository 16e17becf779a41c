// Builds an operator from its syntax tree.
#pragma once

#include "dsl/graph/operator.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Throws DiagnosticError unless its value is made only of its two names, numbers and functions of elements.
// The result does not depend on the syntax tree.
Operator build_operator(const ast::OperatorDefinition& definition);

// Throws DiagnosticError if the call of an operator has arguments.
void refuse_arguments(const ast::Expression& call);

}  // namespace hocket::dsl
