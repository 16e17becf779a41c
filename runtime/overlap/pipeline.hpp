// The two-stage pipeline that a plan runs in. Batches communicate one after the other, and compute one after
// the other. Forward, a batch computes when its communication has ended, and the next one communicates
// meanwhile. Backward is the mirror: a batch communicates when its layers have computed.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/overlap/sums.hpp"

namespace hocket::overlap {

enum class Direction { forward, backward };

// The time from the beginning to the end, the same in both directions: run backward, time reversed, is run
// forward. The recurrence of docs/overlap.md, which the optimum minimizes, operation by operation; so the
// optimum is not above any other plan by a rounding either.
double seconds_of(const Sums& sums, const Batches& batches);

// When a batch does what; seconds since the beginning.
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

    // Of the whole time.
    double share_of_overlap() const { return seconds > 0 ? overlap / seconds : 0; }
};

Timeline simulate(const Sums& sums, const Batches& batches, Direction direction);

}  // namespace hocket::overlap
