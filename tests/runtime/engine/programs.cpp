#include "tests/runtime/engine/programs.hpp"

#include <map>

namespace hocket::test {

engine::ExecutorKind compiled_if_any() {
    const bool has_jit = engine::compiles(engine::ExecutorKind::automatic);
    return has_jit ? engine::ExecutorKind::jit : engine::ExecutorKind::interpreter;
}

namespace {

using dsl::Op;
using Kind = dsl::Op::Kind;

// Appends operations; operations on one chunk of x wait for each other, in program order.
class Builder {
  public:
    Builder(dsl::Collective collective, const char* name, dsl::Rank rank, dsl::Rank ranks, dsl::Rank chunks) {
        program.collective = collective;
        program.schedule = name;
        program.topology = std::to_string(ranks);
        program.rank = rank;
        program.ranks = ranks;
        program.fingerprint = 17 + static_cast<std::uint64_t>(collective);
        for (dsl::Rank b = 0; b <= chunks; ++b) program.boundaries.emplace_back(b, chunks);
        program.chunks = static_cast<std::uint64_t>(chunks);
    }

    std::uint32_t origin(const std::string& location, const std::string& text) {
        program.origins.push_back({location, text, ""});
        return static_cast<std::uint32_t>(program.origins.size() - 1);
    }

    void add(Kind kind, dsl::Rank chunk, dsl::AreaId area, dsl::Rank peer,
             std::vector<dsl::AreaId> operands = {}) {
        Op op;
        op.kind = kind;
        op.begin = static_cast<dsl::BoundaryId>(chunk);
        op.end = op.begin + 1;
        op.area = area;
        op.operands = std::move(operands);
        op.peer = peer;
        op.origin = static_cast<std::uint32_t>(program.origins.size() - 1);
        if (kind == Kind::send) op.message = sent_[peer]++;
        if (kind == Kind::receive) op.message = received_[peer]++;
        const auto id = static_cast<dsl::OpId>(program.ops.size());
        if (const auto last = last_.find(chunk); last != last_.end()) {
            program.ops[last->second].successors.push_back(id);
            op.waits_for = 1;
        }
        last_[chunk] = id;
        program.ops.push_back(std::move(op));
    }

    dsl::AreaId scratch(dsl::Rank chunk) {
        const auto begin = static_cast<dsl::BoundaryId>(chunk);
        program.scratch.push_back({begin, begin + 1});
        return static_cast<dsl::AreaId>(program.areas() - 1);
    }

    dsl::RankProgram program;

  private:
    std::map<dsl::Rank, std::uint32_t> sent_, received_;
    std::map<dsl::Rank, dsl::OpId> last_;
};

}  // namespace

dsl::RankProgram ring_all_reduce(dsl::Rank rank, dsl::Rank ranks) {
    Builder b(dsl::Collective::all_reduce, "hand_ring", rank, ranks, ranks);
    const dsl::Rank next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    const auto chunk = [&](dsl::Rank index) { return (index % ranks + ranks) % ranks; };
    b.origin("hand.sched:3", "x[r - s] : r +> r + 1");
    if (ranks == 1) b.add(Kind::copy, 0, dsl::output_area, -1, {dsl::input_area});
    for (dsl::Rank s = 1; s < ranks; ++s) {
        b.add(Kind::send, chunk(rank - s), s == 1 ? dsl::input_area : dsl::output_area, next);
        const dsl::Rank arriving = chunk(previous - s);
        const dsl::AreaId slot = b.scratch(arriving);
        b.add(Kind::receive, arriving, slot, previous);
        b.add(Kind::combine, arriving, dsl::output_area, -1, {slot, dsl::input_area});
    }
    b.origin("hand.sched:7", "x[r - s] : r -> r + 1");
    for (dsl::Rank s = 0; s < ranks - 1; ++s) {
        b.add(Kind::send, chunk(rank - s), dsl::output_area, next);
        b.add(Kind::receive, chunk(previous - s), dsl::output_area, previous);
    }
    return b.program;
}

dsl::RankProgram flat_broadcast(dsl::Rank rank, dsl::Rank ranks, dsl::Rank root) {
    Builder b(dsl::Collective::broadcast, "hand_flat", rank, ranks, 1);
    b.program.root = root;
    b.program.fingerprint += 1000 * static_cast<std::uint64_t>(root + 1);
    b.origin("hand.sched:11", "x : root -> r");
    if (rank == root) b.add(Kind::copy, 0, dsl::output_area, -1, {dsl::input_area});
    for (dsl::Rank r = 0; r < ranks; ++r)
        if (r != root && rank == root) b.add(Kind::send, 0, dsl::input_area, r);
    if (rank != root) b.add(Kind::receive, 0, dsl::output_area, root);
    return b.program;
}

dsl::RankProgram broadcast_in_parts(dsl::Rank rank, dsl::Rank ranks, dsl::Rank root) {
    dsl::RankProgram program = flat_broadcast(rank, ranks, root);
    program.boundaries.clear();
    for (dsl::Rank b = 0; b <= 7; ++b) program.boundaries.emplace_back(b, 7);
    program.chunks = 7;
    for (Op& op : program.ops) {
        op.begin = op.kind == Kind::copy ? 0 : 4;
        op.end = 7;
        if (op.kind == Kind::send) op.further = {{0, 1, op.area}, {3, 4, op.area}, {1, 3, op.area}};
        if (op.kind != Kind::receive) continue;
        op.end = 5;
        for (dsl::BoundaryId chunk : {5, 6, 0, 3, 1, 2}) op.further.push_back({chunk, chunk + 1, op.area});
    }
    return program;
}

}  // namespace hocket::test
