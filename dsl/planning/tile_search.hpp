// Searches for the number of tiles in which a schedule takes least, if it leaves that to the compiler.
#pragma once

#include <functional>
#include <optional>

#include "dsl/planning/candidate.hpp"

namespace hocket::dsl {

// Returns a schedule with its estimate for this many bytes of x; nullopt if it does not run.
using Rating = std::function<std::optional<Candidate>(const Runnable& runnable, double bytes)>;

// Returns the schedule in the number of tiles with the lowest estimate for `bytes` of x; nullopt if it runs
// in none that is tried. Where the estimate follows fewer tiles, the candidate's chooser and graph are unset.
std::optional<Candidate> in_best_tiles(const Runnable& automatic, Rank ranks, double bytes,
                                       const Rating& rating);

}  // namespace hocket::dsl
