#include "runtime/engine/run/peer_use.hpp"

#include <algorithm>

#include "runtime/engine/plan/address.hpp"

namespace hocket::engine {
namespace {

bool reads(const dsl::Op& op, dsl::AreaId area) {
    return std::ranges::find(op.operands, area) != op.operands.end();
}

}  // namespace

bool writes_to_local_peers(const dsl::RankProgram& program, const dsl::Op& op) {
    if (!op.is_elementwise()) return false;
    int theirs = 0, own = 0;
    bool reads_theirs = false, reads_own = false;
    for_destinations(op, [&](dsl::AreaId area) {
        const bool is_theirs = local_peer_of(program, area).has_value();
        ++(is_theirs ? theirs : own);
        if (reads(op, area)) (is_theirs ? reads_theirs : reads_own) = true;
    });
    return theirs > 0 && !reads_theirs && (own <= 1 || !reads_own);
}

bool is_lent(const dsl::RankProgram& program, dsl::AreaId area) {
    const dsl::AreaId memory = program.memory_of(area);
    return local_peer_of(program, memory) && memory % dsl::areas_of_a_rank != dsl::work_area;
}

bool crosses(const dsl::RankProgram& program, const dsl::Op& op) {
    bool crosses = false;
    const auto look = [&](dsl::AreaId area) { crosses |= is_lent(program, area); };
    if (op.is_elementwise()) {
        for_destinations(op, look);
        std::ranges::for_each(op.operands, look);
    }
    return crosses;
}

bool can_copy_once(const dsl::RankProgram& program) {
    const auto suits = [&](const dsl::Op& op) {
        int own = 0;
        bool reads_own = false, reads_lent = false;
        for_destinations(op, [&](dsl::AreaId area) {
            const bool is_theirs = is_lent(program, area);
            own += is_theirs ? 0 : 1;
            if (reads(op, area)) (is_theirs ? reads_lent : reads_own) = true;
        });
        return !reads_lent && (own <= 1 || !reads_own);
    };
    bool any_crosses = false;
    for (const dsl::Op& op : program.ops) {
        if (op.is_order()) continue;
        if (!op.is_elementwise()) return false;
        if (!crosses(program, op)) continue;
        if (!suits(op)) return false;
        any_crosses = true;
    }
    return any_crosses || program.shares_input || program.shares_output;
}

}  // namespace hocket::engine
