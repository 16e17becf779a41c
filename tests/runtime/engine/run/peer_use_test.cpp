// How operations use the memory of local peers: the copies that a rank may make at the same time.
#include "runtime/engine/run/peer_use.hpp"

#include "dsl/elaboration/find.hpp"
#include "dsl/planning/choose.hpp"
#include "dsl/planning/compile.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::OpId;

namespace {

struct Range {
    dsl::AreaId memory;
    dsl::Rational begin, end;
};

// Returns where an operation reads or writes, in the memory that the areas lie in.
template <typename For>
std::vector<Range> ranges_of(const dsl::RankProgram& program, const dsl::Op& op, For for_ranges) {
    std::vector<Range> ranges;
    for_ranges(op, [&](dsl::AreaId area, dsl::BoundaryId begin, dsl::BoundaryId end) {
        dsl::Rational by(0);
        if (area >= program.first_shifted()) {
            const dsl::ShiftedArea& shifted = program.shifted[area - program.first_shifted()];
            by = program.boundaries[shifted.from] - program.boundaries[shifted.at];
        }
        ranges.push_back(
            {program.memory_of(area), program.boundaries[begin] + by, program.boundaries[end] + by});
    });
    return ranges;
}

// Returns true if the result is another one in the other order, or at the same time.
bool conflict(const dsl::RankProgram& program, const dsl::Op& one, const dsl::Op& other) {
    const auto reads = [&](const dsl::Op& op) {
        return ranges_of(program, op, [](const dsl::Op& of, auto call) { dsl::for_reads(of, call); });
    };
    const auto writes = [&](const dsl::Op& op) {
        return ranges_of(program, op, [](const dsl::Op& of, auto call) { dsl::for_writes(of, call); });
    };
    const auto meet = [](const std::vector<Range>& some, const std::vector<Range>& others) {
        for (const Range& a : some)
            for (const Range& b : others)
                if (a.memory == b.memory && a.begin < b.end && b.begin < a.end) return true;
        return false;
    };
    return meet(writes(one), writes(other)) || meet(writes(one), reads(other)) ||
           meet(reads(one), writes(other));
}

// Returns the number of copies that stand beside others.
int check_beside(const dsl::RankProgram& program) {
    const std::vector<OpId> beside = engine::work_beside(program);
    REQUIRE(beside.size() == program.ops.size());
    int pairs = 0;
    for (OpId own = 0; own < beside.size(); ++own) {
        const OpId crossing = beside[own];
        if (crossing == engine::no_op || engine::crosses(program, program.ops[own])) continue;
        INFO("rank " << program.rank << ": operation " << own << " beside " << crossing);
        REQUIRE(beside[crossing] == own);
        CHECK(engine::crosses_straight(program, program.ops[crossing]));
        CHECK(program.ops[own].kind == dsl::Op::Kind::copy);
        for (OpId other = std::min(own, crossing); other <= std::max(own, crossing); ++other) {
            if (other == own) continue;
            CHECK_FALSE(conflict(program, program.ops[own], program.ops[other]));
            // It is made where the one that crosses stands.
            if (other < own) CHECK_FALSE(std::ranges::count(program.ops[other].successors, own));
            if (other > own && other <= crossing)
                CHECK_FALSE(std::ranges::count(program.ops[own].successors, other));
        }
        ++pairs;
    }
    return pairs;
}

dsl::RankProgram program_of(dsl::Planner& planner, dsl::Collective collective, const std::string& schedule,
                            dsl::Rank ranks, dsl::Rank rank) {
    dsl::PlanRequest request{
        collective, schedule, std::to_string(ranks) + "m", {HOCKET_SCHEDULES_DIR}, ranks};
    request.hosts.assign(static_cast<std::size_t>(ranks), 0);
    return planner.check(request)->project(rank);
}

}  // namespace

TEST_CASE("the copy beside one that crosses needs nothing of what stands between them") {
    using enum dsl::Collective;
    dsl::Planner planner;
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    int pairs = 0;
    for (const dsl::Rank ranks : {2, 3, 4, 6})
        for (const dsl::Collective collective :
             {all_reduce, reduce_scatter, reduce, all_gather, broadcast, gather, scatter, all_to_all}) {
            const auto topology = dsl::find_topology(library, std::to_string(ranks) + "m", ranks);
            for (const std::string& name : dsl::candidate_names(library, topology, collective, 0, 1 << 20))
                for (dsl::Rank rank = 0; rank < ranks; ++rank) {
                    INFO(name << " for " << dsl::name_of(collective) << " on " << ranks << " ranks");
                    pairs += check_beside(program_of(planner, collective, name, ranks, rank));
                }
        }
    CHECK(pairs > 30);
}

TEST_CASE("a scatter's own part is copied beside the first that crosses, an all_to_all's as well") {
    dsl::Planner planner;
    for (const auto& [collective, schedule] :
         {std::pair{dsl::Collective::scatter, "binomial"}, {dsl::Collective::all_to_all, "direct"}})
        CHECK(check_beside(program_of(planner, collective, schedule, 2, 0)) == 1);
    // It has no copy of its own but in the operation that crosses.
    CHECK(check_beside(program_of(planner, dsl::Collective::all_gather, "bruck", 2, 0)) == 0);
}
