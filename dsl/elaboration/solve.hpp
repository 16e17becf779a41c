// Finds the iterations of an `each` that concern a rank. It solves endpoints such as `r + 1` for their
// variable, so that one rank's steps are found without walking those of all ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dsl/elaboration/value.hpp"

namespace hocket::dsl {

struct Domain {
    std::string_view name;
    std::int64_t begin = 0, end = 0;  // half-open
};

struct Solution {
    std::size_t variable;              // index into the domains
    std::vector<std::int64_t> values;  // ascending, inside the domain
};

// Returns the values of one variable for which `endpoint`, wrapped around `size`, is `member`. Returns
// nullopt if the expression is not of a form that can be solved (one variable, in sums, differences and xor
// with terms that depend on no variable).
std::optional<Solution> solve(const ast::Expression& endpoint, Rank member, Rank size,
                              const std::vector<Domain>& domains, const Evaluator& evaluator);

}  // namespace hocket::dsl
