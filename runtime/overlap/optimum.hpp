// Computes the fastest plan.
#pragma once

#include "runtime/overlap/sums.hpp"

namespace hocket::overlap {

// Exact, by dynamic programming over the recurrence of seconds_of; of equally fast plans it returns one with
// few batches. Takes time quadratic in the number of layers at most. limit: as in Sums::may_be_batch.
Batches optimum(const Sums& sums, std::uint64_t limit);

}  // namespace hocket::overlap
