// Prints a rank's program for people.
#pragma once

#include <string>

#include "dsl/projection/rank_program.hpp"

namespace hocket::dsl {

// Returns "x[1/3, 2/3)", or "x'[1/3, 2/3)" for the result of one exchange.
std::string region_text(const RankProgram& program, BoundaryId begin, BoundaryId end);

// Returns one line per operation: "  7  combine x[1/3, 2/3) of output with 2 messages
// schedules/direct.sched:4".
std::string explain(const RankProgram& program);

// Returns the amounts that the rank sends and receives, as multiples of x. value_bytes: of x's type, for
// selections.
std::string traffic_text(const RankProgram& program, double value_bytes = usual_value_bytes);

}  // namespace hocket::dsl
