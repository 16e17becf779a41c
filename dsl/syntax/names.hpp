// Checks that every name has a single meaning in its scope.
#pragma once

#include <span>
#include <string_view>

#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Throws DiagnosticError for a name that is defined while the same name is already known, or that belongs to
// the language (`levels`, `world`, `ranks`). Names of levels belong to the topology: a schedule need not know
// them, and may use them for something else.
void check_names(const ast::File& file);
void check_names(const ast::UpdateDefinition& update);

// The names that an update's statements know besides its parameters and the names that they define.
inline constexpr std::string_view update_names[] = {"w", "g", "workers", "round"};

// The names that belong to the language.
std::span<const std::string_view> language_names();
// The functions that expressions can call without making them, such as "log2".
std::span<const std::string_view> language_functions();
bool is_language_function(std::string_view name);

}  // namespace hocket::dsl
