// Which algorithm a statement without `using` takes: the one with the lowest estimate on its group.
#pragma once

#include "dsl/elaborate.hpp"

namespace hocket::dsl {

// Seconds until the last rank of the group is done, if a message takes the level's latency, a fifth of it
// more for each other message that its sender sends at the same time, and its bytes over the level's
// bandwidth. `bytes` is the size of the buffer that the group works on. Level properties are those of the
// group's slowest level.
double estimate(const ast::Algorithm& algorithm, const Library& library, const Topology& topology,
                const Group& group, double bytes);

// Chooses among the library's algorithms that allow the group and are right on it, by their estimate at 1
// MiB; the same on all ranks. Keeps what it has found. The references must outlive it.
Chooser make_chooser(const Library& library, const Topology& topology);

}  // namespace hocket::dsl
