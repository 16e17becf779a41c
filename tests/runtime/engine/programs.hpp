// Rank programs made by hand, for tests of the engine that need no schedule language.
#pragma once

#include "dsl/projection/rank_program.hpp"
#include "runtime/engine/plan/executor.hpp"

namespace hocket::test {

// The executor to compare with the interpreter: the JIT from the first start on, if it is built in.
// (automatic begins with the interpreter.)
engine::ExecutorKind compiled_if_any();

// Ring all_reduce: chunk c goes around from rank c + 1 to rank c, combined on the way, and then around once
// more.
dsl::RankProgram ring_all_reduce(dsl::Rank rank, dsl::Rank ranks);

// The root sends everything to every rank.
dsl::RankProgram flat_broadcast(dsl::Rank rank, dsl::Rank ranks, dsl::Rank root);

// The same in one message of several parts, out of order; each side divides the message in its own way.
dsl::RankProgram broadcast_in_parts(dsl::Rank rank, dsl::Rank ranks, dsl::Rank root);

}  // namespace hocket::test
