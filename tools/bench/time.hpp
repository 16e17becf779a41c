// Measures how long an iteration takes.
//
// Ranks on one host share a clock. Each iteration begins with a barrier, and lasts from the FIRST rank's
// start to the LAST rank's end. All its work lies between the two, so the figure is never less than the time
// of the work. It includes the skew with which ranks leave the barrier (start_skew_us), which is significant
// if ranks outnumber cores. Neither the span from the last rank's start nor the slowest rank's own duration
// would be correct: a rank that leaves the barrier late finds its part done by the others, and would hide
// their work.
//
// Ranks without a common clock run a barrier and then all iterations back to back; the time is divided by
// their number. The slowest rank's time counts, including the barrier, so again it is never less than the
// work. Here a rank may run ahead of the others, as a broadcast's root does: this is the time between
// iterations, not the latency of one.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "capi/hocket.h"

namespace hocket::bench {

enum class Method { span, back_to_back };

struct Timing {
    double time_us = 0;            // median span, or the mean of the loop
    std::vector<double> spans_us;  // of each iteration, ascending; empty if back to back
    double start_skew_us = 0;      // median of last start - first start; 0 back to back
};

struct Loop {
    Method method = Method::span;
    int warmup = 0, iterations = 1;
};

// Returns true if the ranks read the same monotonic clock: same boot of the same kernel, same time namespace.
// Collective; the same result on every rank.
bool share_clock(hkt_comm* comm);

// Times `once(plan)` for plan in 0 .. plans - 1; plans take turns, so that they run under the same
// conditions. Collective; the same result on every rank. Throws std::runtime_error.
std::vector<Timing> measure(hkt_comm* comm, const Loop& loop, int plans,
                            const std::function<void(int plan)>& once);

// Computes the timing from the start and end of each of this rank's iterations, in nanoseconds on the common
// clock. Collective.
Timing timing_of_spans(hkt_comm* comm, const std::vector<std::int64_t>& starts,
                       const std::vector<std::int64_t>& ends);

}  // namespace hocket::bench
