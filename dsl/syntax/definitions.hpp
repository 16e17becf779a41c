// All definitions of a file, of whatever kind.
#pragma once

#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Calls `call` with each definition, kind by kind; each has a span and a name.
template <typename Call>
void for_each_definition(const ast::File& file, const Call& call) {
    const auto of_kind = [&](const auto& definitions) {
        for (const auto& definition : definitions) call(definition);
    };
    of_kind(file.collectives);
    of_kind(file.operators);
    of_kind(file.updates);
    of_kind(file.algorithms);
    of_kind(file.schedules);
    of_kind(file.topologies);
}

}  // namespace hocket::dsl
