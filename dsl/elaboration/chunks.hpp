// The chunks that an expression over a buffer names.
#pragma once

#include "dsl/elaboration/value.hpp"

namespace hocket::dsl {

// The chunks [first, last) of a buffer with one chunk for each member of a group.
struct Chunks {
    ViewId view = 0;
    Rank first = 0, last = 0;
    auto operator<=>(const Chunks&) const = default;
};

// Returns the chunks of `x`, `x[c]`, `x[a ..< b]` or `x[block(c, n)]` in a group of this size. Throws
// DiagnosticError.
Chunks chunks_of(const ast::Expression& region, const Evaluator& evaluator, Rank size);

// Returns the buffer in such an expression: `x`.
const ast::Expression& buffer_of(const ast::Expression& region);

}  // namespace hocket::dsl
