// Runs a topology's definition.
#pragma once

#include "dsl/graph/topology.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Uses the arguments of the reference (by position, then the defaults). Throws DiagnosticError.
Topology build_topology(const ast::TopologyDefinition& definition, const ast::Expression& reference);

}  // namespace hocket::dsl
