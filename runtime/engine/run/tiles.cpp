#include "runtime/engine/run/tiles.hpp"

#include <algorithm>

#include "dsl/planning/tiling.hpp"
#include "runtime/engine/run/execution.hpp"

namespace hocket::engine {
namespace {

// Each stretch is a kernel call of its own, and a part of its own in a message: with a schedule of hundreds
// of chunks, short stretches would make hundreds of both. A choice, not a measurement.
constexpr std::uint64_t stretch_unit = 64, shortest_stretch = 4096;

// Returns true if large starts are divided here. On one host a SharedRun makes its own tiles. If every rank
// has a host to itself, messages have nothing to overlap with, and more of them only cost time.
bool is_divided(const dsl::RankProgram& program) {
    const bool is_on_one_host = program.local_peers.size() + 1 == static_cast<std::size_t>(program.ranks);
    return can_be_divided(program) && program.memory_is_shared && !is_on_one_host;
}

}  // namespace

bool can_be_divided(const dsl::RankProgram& program) {
    return program.chunks > 0 && program.buffers == 1 && !contract_of(program.collective).is_by_rank() &&
           !program.computes();
}

void divide(Start& start) {
    const dsl::RankProgram& program = start.plan->program();
    const std::uint64_t element = element_size(start.plan->type());
    const std::uint64_t count = start.plan->elements_of_x(start.count), bytes = count * element;
    start.tiling = Tiling(count);
    if (!is_divided(program)) return;
    static_assert(LocalPeers::slots == dsl::most_tiles);
    const std::uint64_t wanted = dsl::tiles_for(bytes, program.ranks, program.most_messages);
    if (wanted == 1) return;
    const std::uint64_t chunk = (bytes + program.chunks - 1) / program.chunks,
                        equal =
                            ((chunk + wanted - 1) / wanted + stretch_unit - 1) / stretch_unit * stretch_unit,
                        stretch = std::max(equal, shortest_stretch);
    start.tiling = Tiling(count, program.chunks, stretch / element);
}

Execution& begin_tiles(StartablePlan& plan, const Start& start, LocalPeers* local_peers) {
    Execution *first = nullptr, *last = nullptr;
    try {
        for (std::uint64_t tile = 0; tile < start.tiles(); ++tile) {
            Execution& execution = plan.take_execution();
            if (last)
                last->set_next_tile(execution);
            else
                first = &execution;
            last = &execution;
            execution.begin(plan.shared_from_this(), start, tile, local_peers);
        }
    } catch (...) {
        if (first) give_back(*first);
        throw;
    }
    return *first;
}

void give_back(Execution& first) {
    for (Execution* tile = &first; tile;) {
        Execution& one = *tile;
        tile = one.next_tile();
        const std::shared_ptr<StartablePlan> plan =
            one.release();  // it may hold the last reference to the plan, and so to `one`
        plan->give_back(one);
    }
}

}  // namespace hocket::engine
