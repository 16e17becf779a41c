// Finds the fastest of several plans for a size.
#pragma once

#include <functional>
#include <vector>

#include "capi/hocket.h"
#include "tools/bench/time.hpp"

namespace hocket::tune {

// Returns medians in microseconds, by plan. Plans take turns. A plan whose best time is more than 1.5 times
// the leader's usual time leaves the race; its figure stays. The race ends after about `seconds`, or when one
// plan is left. Collective: `once(plan)` runs a plan; the result is the same on every rank. Throws
// std::runtime_error.
std::vector<double> race(hkt_comm* comm, bench::Method method, int plans, double seconds,
                         const std::function<void(int plan)>& once);

}  // namespace hocket::tune
