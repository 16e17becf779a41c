// Binds parameters, arguments and ranges, which schedules, algorithms and topologies have in common.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/elaboration/value.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Returns the argument of each parameter, null where the call has none. Arguments go by position or, behind
// those, by name. Throws DiagnosticError if they do not fit.
std::vector<const ast::Expression*> arguments_of(const std::string& name,
                                                 const std::vector<const ast::Parameter*>& parameters,
                                                 const ast::Expression& call);

// Returns the call of an algorithm with the values of its arguments. Throws DiagnosticError if one is not a
// number.
ast::Expression with_values(const ast::Expression& call, const Evaluator& evaluator);

// The number of tiles that `auto` stands for.
struct Tiles {
    std::int64_t count;
    bool is_used = false;  // some parameter is `auto`
};

// Adds the parameters to the scope: the reference's arguments, or the defaults. Unknown names
// stand for themselves (Symbol). Parameters without a default get their values at each start and take no
// argument. tiles: null where `auto` cannot stand. Returns the name with its arguments: "flat(ring,
// doubling)".
std::string bind_parameters(const std::string& name, const std::vector<ast::Parameter>& parameters,
                            const ast::Expression& reference, Scope& scope, Tiles* tiles = nullptr);

// Returns the values that a loop runs over, in order.
std::vector<Value> values_of(const ast::Range& range, const Evaluator& evaluator);

}  // namespace hocket::dsl
