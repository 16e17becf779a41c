// Finds names that a file defines and never uses.
#pragma once

#include <string>
#include <vector>

#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

struct UnusedName {
    Span span;
    std::string what;  // "parameter", "name", "function", "state", "buffer"
    std::string name;
};

// Returns parameters, `let` names, states and given buffers that nothing in their scope reads, in the order
// of the text for each definition. Loop variables count turns, so they are not among them.
std::vector<UnusedName> unused_names(const ast::File& file);

}  // namespace hocket::dsl
