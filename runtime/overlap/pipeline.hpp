// The two-stage pipeline in which a plan runs. Batches communicate one after another, and compute one after
// another. In the forward direction a batch computes when its communication has ended, and the next one
// communicates meanwhile. The backward direction is the mirror image: a batch communicates when its layers
// have computed.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/overlap/sums.hpp"

namespace hocket::overlap {

enum class Direction { forward, backward };

// Returns the time from beginning to end, which is the same in both directions: the backward direction is the
// forward direction with time reversed. Implements the recurrence of docs/overlap.md, which the optimum
// minimizes, operation by operation; so the optimum does not exceed another plan even by a rounding error.
double seconds_of(const Sums& sums, const Batches& batches);

// When a batch communicates and computes, in seconds since the beginning.
struct BatchTimes {
    std::size_t begin = 0, end = 0;  // layers, as in Sums
    double startup_begin = 0, transfer_begin = 0, transfer_end = 0;
    double compute_begin = 0, compute_end = 0;
};

struct Timeline {
    std::vector<BatchTimes> batches;  // in the order in which they run
    double seconds = 0;
    double communication = 0;  // how long the link is busy: start-ups and transfers
    double computation = 0;
    double overlap = 0;  // how long both are

    // Returns the overlap as a share of the whole time.
    double share_of_overlap() const { return seconds > 0 ? overlap / seconds : 0; }
};

Timeline simulate(const Sums& sums, const Batches& batches, Direction direction);

}  // namespace hocket::overlap
