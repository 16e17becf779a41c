// A program as text, for people.
#pragma once

#include <string>

#include "dsl/projection/rank_program.hpp"

namespace hocket::dsl {

// "x[1/3, 2/3)"; for the result of one exchange: "x'[1/3, 2/3)".
std::string region_text(const RankProgram& program, BoundaryId begin, BoundaryId end);

// One line for each operation: "  7  combine x[1/3, 2/3) of output with 2 messages
// schedules/direct.sched:4".
std::string explain(const RankProgram& program);

// How much the rank sends and receives, as multiples of x.
std::string traffic_text(const RankProgram& program);

}  // namespace hocket::dsl
