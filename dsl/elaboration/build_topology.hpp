// A topology's definition, run.
#pragma once

#include "dsl/graph/topology.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// With the arguments of the reference (positional, then the defaults). Throws DiagnosticError.
Topology build_topology(const ast::TopologyDefinition& definition, const ast::Expression& reference);

}  // namespace hocket::dsl
