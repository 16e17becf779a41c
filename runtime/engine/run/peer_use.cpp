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

bool crosses_straight(const dsl::RankProgram& program, const dsl::Op& op) {
    if (op.kind != dsl::Op::Kind::copy || !crosses(program, op)) return false;
    return !is_lent(program, op.operands[0]) || (op.also.empty() && !is_lent(program, op.area));
}

// A copy that stands directly before the one that crosses can be put off until then, if that one is not its
// successor. One that stands behind it can be made before, if all its predecessors stand before both.
std::vector<dsl::OpId> work_beside(const dsl::RankProgram& program) {
    const std::vector<dsl::Op>& ops = program.ops;
    std::vector<dsl::OpId> beside(ops.size(), no_op), last_before(ops.size(), no_op);
    for (dsl::OpId id = 0; id < ops.size(); ++id)
        for (const dsl::OpId successor : ops[id].successors) last_before[successor] = id;
    std::vector<dsl::OpId> owns;  // that stand beside none yet
    for (dsl::OpId id = 0; id < ops.size(); ++id)
        if (ops[id].kind == dsl::Op::Kind::copy && !crosses(program, ops[id])) owns.push_back(id);
    for (dsl::OpId id = 0; id < ops.size() && !owns.empty(); ++id) {
        if (!crosses_straight(program, ops[id])) continue;
        const auto suits = [&](dsl::OpId own) {
            if (own + 1 == id) return !std::ranges::count(ops[own].successors, id);
            return own > id && (last_before[own] == no_op || last_before[own] < id);
        };
        const auto own = std::ranges::find_if(owns, suits);
        if (own == owns.end()) continue;
        beside[id] = *own;
        beside[*own] = id;
        owns.erase(own);
    }
    return beside;
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
