// The rules of others: each takes one decision after the other, and goes back on none.
#pragma once

#include "runtime/overlap/pipeline.hpp"

namespace hocket::overlap {

// Wang, Pi and Zhou, "Scalable Distributed DL Training: Batching Communication and Computation", AAAI 2019:
// Algorithms 1 and 2, as printed. What is not printed is decided so (docs/overlap.md):
// where no choice meets the constraint (5), the one that misses it by the least; where choices are alike, the
// one with more layers in the batch.
Batches algorithm1(const Sums& sums);
Batches algorithm2(const Sums& sums);

// Shi, Chu and Li, "MG-WFBP: Efficient Data Communication for Distributed Synchronous SGD Algorithms",
// INFOCOM 2019: for the backward direction. Gradients that wait for the link take along those of the next
// layer, if these are ready before the start-up time that a communication of their own would cost has passed.
Batches mg_wfbp(const Sums& sums);

// A batch is closed as soon as it has `bytes` of them, in the order of the direction.
Batches buckets(const Sums& sums, Direction direction, std::uint64_t bytes);

}  // namespace hocket::overlap
