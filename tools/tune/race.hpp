// Which of several plans is the fastest for a size.
#pragma once

#include <functional>
#include <vector>

#include "capi/hocket.h"
#include "tools/bench/time.hpp"

namespace hocket::tune {

// Medians in microseconds, by plan. Plans take turns; one whose best time is worse than the leader's usual
// time by half leaves the race, its figure stays. Ends after about `seconds`, or when one is left.
// Collective: `once(plan)` runs it; the same result on every rank. Throws std::runtime_error.
std::vector<double> race(hkt_comm* comm, bench::Method method, int plans, double seconds,
                         const std::function<void(int plan)>& once);

}  // namespace hocket::tune
