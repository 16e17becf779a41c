// How an element-wise operation uses the memory of local peers.
#pragma once

#include <vector>

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

// Returns true if the operation is a copy between a local peer's input or output and one place of this rank,
// or from this rank to any places.
bool crosses_straight(const dsl::RankProgram& program, const dsl::Op& op);

constexpr dsl::OpId no_op = ~dsl::OpId{0};

// For each operation, the one that this rank can make at the same time: for a copy that crosses straight, a
// copy that does not cross and neither needs it nor is needed by it, and for that one the copy that crosses.
// no_op for all others. Where input and output lie in the same memory, it does not hold.
std::vector<dsl::OpId> work_beside(const dsl::RankProgram& program);

// Returns true if the program's ranks can use each other's private buffers where they are, through the
// kernel, as far as this rank knows: buffers are used by peers, and the results of operations that cross can
// be made in memory of the rank's own first.
bool can_copy_once(const dsl::RankProgram& program);

}  // namespace hocket::engine
