// What holds for every program that is run. Runs, executors and generated code trust a program's indices in
// their inner loops, so they are checked once, when a plan is made of it.
#pragma once

#include "dsl/rank_program.hpp"
#include "runtime/types.hpp"

namespace hocket::engine {

// Throws hocket::Error: internal where a rule is broken, invalid_argument where the program combines and the
// operator does not exist for the type.
void check_rules(const dsl::RankProgram& program, DataType type, ReduceOp op);

}  // namespace hocket::engine
