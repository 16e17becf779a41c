// Fewer and larger chunks, where a file has more than its transfers need.
#pragma once

#include <vector>

#include "tools/schedc/imports/rounds.hpp"

namespace hocket::tools::imports {

// Files divide the data among channels and threadblocks, which Hocket does not have. If chunks belong to no
// rank, those that always go the same way become one, unless these would differ in size. Changes the number
// of chunks.
void coarsen(Algorithm& algorithm, std::vector<Round>& rounds);

}  // namespace hocket::tools::imports
