// Which algorithm a statement without `using` takes: the one with the lowest estimate on its group.
#pragma once

#include "dsl/elaborate.hpp"

namespace hocket::dsl {

// Seconds that rank 0 of the group is busy with the algorithm: over its phases, the level's latency, a fifth
// of it for each further message that is sent at the same time, and the bytes over the level's bandwidth.
// `bytes` is the size of the buffer that the group works on. Level properties are those of the group's
// slowest level.
double estimate(const ast::Algorithm& algorithm, const Library& library, const Topology& topology,
                const Group& group, double bytes);

// Chooses among the library's algorithms that allow the group, by their estimate at 1 MiB; equal on all
// ranks. Keeps what it has found. The references must outlive it.
Chooser make_chooser(const Library& library, const Topology& topology);

}  // namespace hocket::dsl
