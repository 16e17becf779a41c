// Schedules that can run with counts that differ: all_to_all whose pieces go straight from their sender to
// their receiver; and others whose pieces stay at their places.
#include "dsl/proof/direct.hpp"

#include <fstream>

#include "dsl/planning/choose.hpp"
#include "tests/dsl/cases.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/dsl/simulate.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using dsl::Collective;

namespace {

dsl::PlanRequest direct(const std::string& schedule, const std::string& topology) {
    auto request = test::request(Collective::all_to_all, schedule, topology);
    request.counts = dsl::Counts::by_pair;
    return request;
}

std::string refusal_of(const dsl::PlanRequest& request) {
    return test::error_of([&] { dsl::check_schedule(request); });
}

// Returns whether a rank reads nothing but inputs, and writes nothing but its own output.
bool keeps_to_itself(const dsl::RankProgram& program) {
    const auto is_input = [&](dsl::AreaId area) {
        return program.memory_of(area) < program.first_scratch() &&
               program.memory_of(area) % dsl::areas_of_a_rank == dsl::input_area;
    };
    for (const dsl::Op& op : program.ops) {
        if (op.kind == dsl::Op::Kind::combine || !op.also.empty()) return false;
        if (op.kind == dsl::Op::Kind::copy && (op.area != dsl::output_area || !is_input(op.operands[0])))
            return false;
        for (std::size_t i = 0; i < op.parts(); ++i) {
            if (op.kind == dsl::Op::Kind::send && op.part(i).area != dsl::input_area) return false;
            if (op.kind == dsl::Op::Kind::receive && op.part(i).area != dsl::output_area) return false;
        }
    }
    return !program.uses_work && program.scratch.empty() && !program.shares_output;
}

}  // namespace

TEST_CASE("a direct all_to_all reads only inputs, and every rank writes its own output alone") {
    const test::TemporarySchedule file(
        "algorithm thirds all_to_all(x, y) over g { for t in 0 ..< 3 { let a = x.part(t of 3) let b = "
        "y.part(t of 3)\n"
        "each r in g, q in g a[q] : r -> b[r] : q } }");
    for (const std::string& schedule :
         {std::string(), std::string("direct"), std::string("pairwise"), file.path()})
        for (const std::string topology : {"1", "2", "5", "2x3"})
            for (const std::vector<int>& hosts :
                 {std::vector<int>{}, {0, 0, 0, 0, 0, 0}, {0, 1, 0, 1, 0, 1}, {0, 0, 1, 1, 2, 2}}) {
                auto request = direct(schedule, topology);
                const dsl::Rank ranks = dsl::check_schedule(request)->levels().ranks();
                request.hosts = hosts;
                if (!hosts.empty()) request.hosts.resize(static_cast<std::size_t>(ranks));
                const auto checked = dsl::check_schedule(request);
                INFO(checked->name() << " on " << topology << ", hosts "
                                     << ::Catch::Detail::stringify(hosts));
                CHECK(dsl::first_detour(checked->graph()) == nullptr);
                std::vector<dsl::RankProgram> programs;
                for (dsl::Rank rank = 0; rank < ranks; ++rank) programs.push_back(checked->project(rank));
                for (const dsl::RankProgram& program : programs) CHECK(keeps_to_itself(program));
                for (const bool in_place : {false, true})
                    for (const unsigned seed : {1u, 2u, 3u})
                        CHECK(test::simulate(programs,
                                             {7 * static_cast<std::uint64_t>(ranks), in_place, seed}) == "");
            }
}

TEST_CASE("what passes pieces on is refused where it has to be direct, at the step that does so") {
    CHECK_THAT(refusal_of(direct("bruck", "4")),
               Contains("bruck.sched:22:") &&
                   Contains("bruck cannot run all_to_all with a count for each pair of ranks: on 4 ranks") &&
                   Contains("as direct and pairwise do: name one of these, or none"));
    CHECK_THAT(refusal_of(direct("default", "2x3")),
               Contains("default cannot run") && Contains("run from here") && Contains("default.sched:"));
    const auto one_buffer = [](const std::string& body) {
        const test::TemporarySchedule file("algorithm a all_to_all(x) over g { " + body + " }");
        return refusal_of(direct(file.path(), "3"));
    };
    CHECK_THAT(one_buffer("each r in g, q in g where q != r x[q] : r -> x[r] : q"), Contains("a cannot run"));
    // All goes to the next rank first.
    const test::TemporarySchedule file(
        "algorithm a all_to_all(x, y) over g { each r in g x[r] : r -> y[r] : r + 1\n"
        "each r in g, q in g x[q] : r -> y[r] : q }");
    CHECK_THAT(
        refusal_of(direct(file.path(), "3")),
        Contains(":1:") && Contains("data from rank 0 to rank 1 that are not its piece for that rank"));
}

TEST_CASE("the choice is among direct ones where it has to be, whatever was asked for before") {
    for (const std::uint64_t bytes : {64, 1 << 20}) {
        dsl::Library library({HOCKET_SCHEDULES_DIR});
        const dsl::Topology topology = dsl::grid_topology("2mx3h");
        dsl::Proofs proofs(library, topology);
        dsl::Choices choices(library, topology, proofs);
        const auto chosen = [&](bool only_direct) {
            std::optional<dsl::Proofs::Proof> proof;
            return choices
                .schedule(Collective::all_to_all, 0, bytes, &proof,
                          {.counts = only_direct ? dsl::Counts::by_pair : dsl::Counts::alike})
                .name;
        };
        const std::string any = chosen(false), straight = chosen(true);
        CHECK((straight == "direct" || straight == "pairwise"));
        CHECK(chosen(false) == any);
        if (bytes == 64) CHECK(any != straight);  // level by level, hosts exchange fewer messages
    }
}

TEST_CASE("what moves pieces to other places is refused with counts by rank, at the step that does so") {
    const test::TemporarySchedule file(
        "algorithm a all_gather(x) over g {\n"
        "each r in g x[r] : r -> x[r - 1] : r\n"
        "each r in g x[r - 1] : r -> x[r] : r + 1\n"
        "each r in g, q in g where q != r and q != r + 1 x[r] : r -> q }");
    auto request = test::request(Collective::all_gather, file.path(), "3");
    CHECK(refusal_of(request) == "");
    request.counts = dsl::Counts::by_rank;
    CHECK_THAT(
        refusal_of(request),
        Contains(":2:") &&
            Contains("a cannot run all_gather with a count for each rank: on 3 ranks, this moves [0, 1/3) of "
                     "x to the place of [2/3, 1), which has another length where the ranks' counts differ") &&
            Contains("as in direct: name that, or none"));
}

TEST_CASE("the choice passes over what moves pieces where counts are by rank") {
    // The fastest on paper: nothing but one step.
    const test::TemporaryFolder folder;
    std::ofstream(folder.path() + "/swift.sched")
        << "algorithm swift gather(x, root) over g where g.size == 2 {\n"
           "x[1 - root] : 1 - root -> x[root] : 1 - root\n"
           "x[root] : 1 - root -> x[1 - root] : root }";
    dsl::Library library({folder.path()});
    const dsl::Topology topology = dsl::grid_topology("2");
    dsl::Proofs proofs(library, topology);
    dsl::Choices choices(library, topology, proofs);
    const auto choose = [&](dsl::Counts counts) {
        std::optional<dsl::Proofs::Proof> proof;
        return choices.schedule(Collective::gather, 0, 1 << 20, &proof, {.counts = counts});
    };
    CHECK(choose(dsl::Counts::alike).name == "swift");
    CHECK_THROWS_WITH(choose(dsl::Counts::by_rank), Contains("there is no schedule for gather"));
    dsl::Library both({folder.path(), HOCKET_SCHEDULES_DIR});
    dsl::Proofs more(both, topology);
    dsl::Choices among(both, topology, more);
    std::optional<dsl::Proofs::Proof> proof;
    const dsl::Chosen chosen =
        among.schedule(Collective::gather, 0, 1 << 20, &proof, {.counts = dsl::Counts::by_rank});
    CHECK(dsl::first_move(*proof->graph) == nullptr);
    CHECK_THAT(chosen.why, !Contains("swift (chosen"));
}
