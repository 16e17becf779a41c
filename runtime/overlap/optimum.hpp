// The plan that no other one is faster than.
#pragma once

#include "runtime/overlap/sums.hpp"

namespace hocket::overlap {

// Exact, by dynamic programming over the recurrence of seconds_of; of the plans that are as fast it is one
// with few batches. Time: the square of the number of layers, at most. limit: as in Sums::may_be_batch.
Batches optimum(const Sums& sums, std::uint64_t limit);

}  // namespace hocket::overlap
