// Checks that every name has one meaning where it stands.
#pragma once

#include <string_view>

#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Throws DiagnosticError for a name that is defined where the same name is already known, or that is one of
// the language's own (`levels`, `world`, `ranks`). The names of levels belong to the topology: a schedule
// need not know them, and may use them for something else.
void check_names(const ast::File& file);
void check_names(const ast::UpdateDefinition& update);

// What the statements of an update know beside its parameters and what they make themselves.
inline constexpr std::string_view update_names[] = {"w", "g", "workers", "round"};

}  // namespace hocket::dsl
