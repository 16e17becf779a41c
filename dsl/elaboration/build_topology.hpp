// Builds a topology from its definition.
#pragma once

#include "dsl/graph/topology.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Binds the reference's arguments by position, then the defaults. Throws DiagnosticError.
Topology build_topology(const ast::TopologyDefinition& definition, const ast::Expression& reference);

}  // namespace hocket::dsl
