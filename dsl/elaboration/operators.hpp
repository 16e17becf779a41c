// Syntax tree -> operator.
#pragma once

#include "dsl/graph/operator.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Throws DiagnosticError if its value is not made of its two names, numbers and functions of elements. The
// result does not depend on the syntax tree.
Operator build_operator(const ast::OperatorDefinition& definition);

}  // namespace hocket::dsl
