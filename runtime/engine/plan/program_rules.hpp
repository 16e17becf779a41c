// Rules for every program that is run. Runs, executors and generated code trust a program's indices in their
// inner loops, so they are checked once, when a plan is made of the program.
#pragma once

#include "dsl/projection/rank_program.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/program/reduction.hpp"

namespace hocket::engine {

// Throws hocket::Error: internal if a rule is broken, invalid_argument if the program combines and the
// operator does not exist for the type.
void check_rules(const dsl::RankProgram& program, DataType type, const compute::Reduction& op);

// Checks the rule for other collectives whose ranks' pieces have different counts: every piece stays at its
// place.
void check_keeps_places(const dsl::RankProgram& program);

// Checks the rule for an all_to_all in which each pair of ranks has a count of its own. Each of its
// operations moves the data that one rank has for another, or a part of them, from the input of the one to
// the output of the other; and this rank writes only to its own output. Throws like check_rules.
void check_is_direct(const dsl::RankProgram& program);

}  // namespace hocket::engine
