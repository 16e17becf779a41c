// Collectives that files define: gives each its number, and finds the ones that schedules and algorithms
// name.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Gives each definition of the file its collective, and resolves the names of those that the file defines.
// Throws DiagnosticError if a definition is incomplete.
void define_collectives(ast::File& file);

// Returns the definition with a name, or null.
using FindCollective = std::function<const ast::CollectiveDefinition*(const ast::Name&)>;
// Resolves the names of collectives that are not resolved yet, as far as `find` knows them.
void resolve_collectives(ast::File& file, const FindCollective& find);
// Throws DiagnosticError at the first name that is not resolved. known: the names that could have stood
// there.
void require_collectives(ast::File& file, std::vector<std::string> known);

}  // namespace hocket::dsl
