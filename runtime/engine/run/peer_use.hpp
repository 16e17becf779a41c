// How an element-wise operation uses the memory of local peers.
#pragma once

#include "dsl/projection/rank_program.hpp"

namespace hocket::engine {

template <typename Call>
void for_destinations(const dsl::Op& op, Call call) {
    call(op.area);
    for (const dsl::AreaId area : op.also) call(area);
}

// Returns true if the operation writes to local peers and reads at most one of its own destinations, so that
// the result can be handed over.
bool writes_to_local_peers(const dsl::RankProgram& program, const dsl::Op& op);

// Returns true if the area lies in a local peer's input or output, which may be private memory of its
// process.
bool is_lent(const dsl::RankProgram& program, dsl::AreaId area);

// Returns true if the operation reads or writes a local peer's input or output.
bool crosses(const dsl::RankProgram& program, const dsl::Op& op);

// Returns true if the program's ranks can use each other's private buffers where they are, through the
// kernel, as far as this rank knows: buffers are used by peers, and the results of operations that cross can
// be made in memory of the rank's own first.
bool can_copy_once(const dsl::RankProgram& program);

}  // namespace hocket::engine
