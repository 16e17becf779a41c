// The chunks that an expression over a buffer names.
#pragma once

#include "dsl/elaboration/value.hpp"

namespace hocket::dsl {

// The chunks [first, last) of a buffer with one chunk for each member of a group. Those from the group's size
// on are those from 0 on.
struct Chunks {
    ViewId view = 0;
    Rank first = 0, last = 0;
    friend bool operator==(const Chunks&, const Chunks&) = default;
};
struct HashOfChunks {
    std::size_t operator()(const Chunks& chunks) const {
        constexpr std::size_t odd = 0x9e3779b97f4a7c15;  // spreads neighbours
        return ((chunks.view * odd + static_cast<std::size_t>(chunks.first)) * odd +
                static_cast<std::size_t>(chunks.last)) *
               odd;
    }
};

// Returns the chunks of `x`, `x[c]`, `x[a ..< b]` or `x[block(c, n)]` in a group of this size. Throws
// DiagnosticError.
Chunks chunks_of(const ast::Expression& region, const Evaluator& evaluator, Rank size);

// Returns the buffer in such an expression: `x`.
const ast::Expression& buffer_of(const ast::Expression& region);

}  // namespace hocket::dsl
