// Lays out the contract of a collective that a file defines.
#pragma once

#include "dsl/base/deadline.hpp"
#include "dsl/graph/promise.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Returns true if the definition's `where` allows a group of this size.
bool is_allowed(const ast::CollectiveDefinition& definition, Rank ranks);

// Returns what the definition promises on this many ranks. Throws DiagnosticError with the place in the
// definition if that makes no sense: a rank or a chunk that does not exist, a place that must hold two
// different things, or something that no rank holds at the start. Throws
// ConditionError if `where` does not allow them, DeadlineError.
Promise promise_of(const ast::CollectiveDefinition& definition, Rank ranks, Rank root,
                   const Deadline& deadline);

}  // namespace hocket::dsl
