// Spanning trees that use all links as fully as the bound allows.
#pragma once

#include <vector>

#include "dsl/synthesis/bound.hpp"
#include "dsl/synthesis/forest.hpp"
#include "dsl/synthesis/link_graph.hpp"

namespace hocket::dsl {

// A root's data are divided into this many parts at most. Where rates would need more, links are used a
// little less than fully.
inline constexpr std::int64_t most_parts = 128;

// Returns trees for these roots, at the bound if its rate needs no more than most_parts. Throws
// DeadlineError, and DiagnosticError if there are none: switches carry more one way than the other.
Forest pack_trees(const LinkGraph& graph, const Ways& ways, const std::vector<Rank>& roots,
                  const Bound& bound, const Deadline& deadline);

}  // namespace hocket::dsl
