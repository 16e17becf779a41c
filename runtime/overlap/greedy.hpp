// Greedy methods from the literature: each decides step by step and never revises a decision.
#pragma once

#include "runtime/overlap/pipeline.hpp"

namespace hocket::overlap {

// Wang, Pi and Zhou, "Scalable Distributed DL Training: Batching Communication and Computation", AAAI 2019:
// Algorithms 1 and 2, as printed. Cases that the paper leaves open are decided as follows (docs/overlap.md):
// if no choice meets the constraint (5), the one that misses it by the least; of equal choices, the one with
// more layers in the batch.
Batches algorithm1(const Sums& sums);
Batches algorithm2(const Sums& sums);

// Shi, Chu and Li, "MG-WFBP: Efficient Data Communication for Distributed Synchronous SGD Algorithms",
// INFOCOM 2019: for the backward direction. Gradients that wait for the link are merged with the next layer's
// if those are ready before the start-up time of a separate communication would have passed.
Batches mg_wfbp(const Sums& sums);

// Closes a batch as soon as it has `bytes`, in the order of the direction.
Batches buckets(const Sums& sums, Direction direction, std::uint64_t bytes);

}  // namespace hocket::overlap
