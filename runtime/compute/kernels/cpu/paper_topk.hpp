// The paper's own way to find a threshold.
#pragma once

#include "runtime/compute/kernels/cpu/select.hpp"

namespace hocket::kernels {

// Algorithm 1 (MSTopK) with N = options.thresholds: bisects between the mean and the maximum of the
// magnitudes, counting the elements above each threshold, and selects all above the lowest threshold that at
// most k reach, and the rest from those above the highest that more reach. 0 < k < count; all elements are
// calculated. The paper leaves open what follows:
// - If at most k elements reach the mean, the search goes on between 0 and the mean.
// - Until a threshold has been reached by at most k elements, none is sure: an initial threshold of 0 would
//   select all elements.
// - Infinities and NaNs are selected first, and have no part in mean and maximum. If there are k of them or
//   more, the selection is exact.
template <typename Word>
std::size_t select_by_thresholds(Selector<Word>& selector, const Elements<Word>& elements, Team& team,
                                 DataType type, std::size_t k, const TopkOptions& options,
                                 const Destination<Word>& to);

}  // namespace hocket::kernels
