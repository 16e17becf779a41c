// What holds for every program that is run. Runs, executors and generated code trust a program's indices in
// their inner loops, so they are checked once, when a plan is made of it.
#pragma once

#include "dsl/projection/rank_program.hpp"
#include "runtime/types.hpp"

namespace hocket::engine {

// Throws hocket::Error: internal where a rule is broken, invalid_argument where the program combines and the
// operator does not exist for the type.
void check_rules(const dsl::RankProgram& program, DataType type, ReduceOp op);

// That of an all_to_all in which each pair of ranks has a count of its own: each of its operations moves what
// one rank has for another, or a part of that, from the one's input to the other's output, and this rank
// writes to its own output alone. Throws as check_rules.
void check_is_direct(const dsl::RankProgram& program);

}  // namespace hocket::engine
