// Trees of which turns make all others: for networks that are the same from many ranks.
#pragma once

#include <optional>
#include <vector>

#include "dsl/synthesis/bound.hpp"
#include "dsl/synthesis/forest.hpp"

namespace hocket::dsl {

// Grows trees for the roots, which stand for all that the turns make of them, and moves arcs until no link
// has more than the bound allows. In narrow trees ranks get data from few others. Returns nothing if there
// are none so far. Throws DeadlineError.
std::optional<Forest> grow_trees(const Ways& ways, const std::vector<Turn>& turns,
                                 const std::vector<Rank>& roots, std::int64_t parts, double seconds_per_byte,
                                 bool is_narrow, const Deadline& deadline);

}  // namespace hocket::dsl
