// Finds a threshold by the paper's own algorithm.
#pragma once

#include "runtime/compute/kernels/cpu/select.hpp"

namespace hocket::kernels {

// Algorithm 1 (MSTopK) with N = options.thresholds. It bisects between the mean and the maximum of the
// magnitudes, counting the elements above each threshold. It selects all elements above the lowest threshold
// that at most k reach, and the rest from those above the highest threshold that more reach. 0 < k < count;
// all elements are calculated. Where the paper leaves a choice open:
// - If at most k elements reach the mean, the search continues between 0 and the mean.
// - Until at most k elements have reached some threshold, no element is selected for sure: an initial
//   threshold of 0 would select all elements.
// - Infinities and NaNs are selected first, and don't count in mean and maximum. If there are k of them or
//   more, the selection is exact.
template <typename Word>
std::size_t select_by_thresholds(Selector<Word>& selector, const Elements<Word>& elements, Team& team,
                                 DataType type, std::size_t k, const TopkOptions& options,
                                 const Destination<Word>& to);

}  // namespace hocket::kernels
