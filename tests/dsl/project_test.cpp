#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "dsl/projection/project.hpp"
#include "tests/dsl/cases.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/dsl/simulate.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using dsl::Collective;

namespace {

std::vector<dsl::RankProgram> programs_of(const dsl::CheckedSchedule& checked) {
    std::vector<dsl::RankProgram> programs;
    for (dsl::Rank rank = 0; rank < checked.levels().ranks(); ++rank)
        programs.push_back(checked.project(rank));
    return programs;
}

}  // namespace

TEST_CASE("programs of all ranks together do what their collective promises") {
    int number = 0, simulated = 0;
    dsl::Planner planner;
    for (const test::Case& item : test::cases())
        for (const char* topology : item.topologies) {
            const dsl::Rank ranks =
                planner.check(test::request(item.collective, item.schedule, topology))->levels().ranks();
            const std::vector<dsl::Rank> roots = contract_of(item.collective).has_root()
                                                     ? std::vector<dsl::Rank>{0, ranks / 2, ranks - 1}
                                                     : std::vector<dsl::Rank>{0};
            for (const dsl::Rank root : roots) {
                if (roots.size() > 1 && number++ % test::in_long_form(1, 2) != 0) continue;
                const auto checked =
                    planner.check(test::request(item.collective, item.schedule, topology, 0, root));
                const auto programs = programs_of(*checked);
                CHECK(test::rendezvous(programs) == "");
                const bool by_rank = contract_of(item.collective).is_by_rank();
                for (const std::uint64_t count : {0, 1, 2, 3, 5, 7, 12, 64, 101})
                    for (const bool in_place : {false, true})
                        for (unsigned seed = 1; seed <= test::in_long_form(2u, 1u); ++seed) {
                            if (simulated++ % test::in_long_form(1, 5) != 0) continue;
                            INFO(name_of(item.collective)
                                 << " by " << checked->name() << " on " << topology << ", count " << count
                                 << ", in place " << in_place << ", root " << root << ", seed " << seed);
                            CHECK(test::simulate(programs,
                                                 {by_rank ? count * ranks : count, in_place, seed}) == "");
                        }
            }
        }
}

// Rank by rank: which host it is on.
std::vector<std::vector<int>> placements(dsl::Rank ranks) {
    std::vector<std::vector<int>> all(5);
    for (dsl::Rank rank = 0; rank < ranks; ++rank) {
        all[0].push_back(0);                  // one host
        all[1].push_back(rank / 2);           // pairs
        all[2].push_back(rank % 2);           // dealt out in turn
        all[3].push_back(rank == 1 ? 1 : 0);  // one rank by itself
        all[4].push_back(rank + 1 == ranks);  // the last one
    }
    return all;
}

// Usually, placements and protocols come by turns.
bool is_left_out(int number) {
    return number % test::in_long_form(1, 7) != 0;
}

TEST_CASE("ranks that share memory do what their collective promises, in any order of events") {
    int number = 0;
    dsl::Planner planner;
    for (const test::Case& item : test::cases())
        for (const char* topology : item.topologies) {
            auto request = test::request(item.collective, item.schedule, topology);
            const dsl::Rank ranks = planner.check(request)->levels().ranks();
            const bool by_rank = contract_of(item.collective).is_by_rank();
            for (const auto& hosts : placements(ranks))
                for (const auto protocol : {dsl::Protocol::bandwidth, dsl::Protocol::latency}) {
                    if (is_left_out(++number)) continue;
                    request.root = contract_of(item.collective).has_root() ? ranks / 2 : 0;
                    request.hosts = hosts;
                    request.protocol = protocol;
                    const auto checked = planner.check(request);
                    const auto programs = programs_of(*checked);
                    INFO(name_of(item.collective)
                         << " by " << checked->name() << " on " << topology << ", hosts "
                         << ::Catch::Detail::stringify(hosts) << ", protocol " << int(protocol));
                    CHECK(test::rendezvous(programs) == "");
                    unsigned order = 0;  // another one each time
                    for (const std::uint64_t count : {1, 5, 64})
                        for (const bool in_place : {false, true})
                            for (const unsigned seed : {++order, ++order}) {
                                INFO("count " << count << ", in place " << in_place << ", seed " << seed);
                                CHECK(test::simulate(programs,
                                                     {by_rank ? count * ranks : count, in_place, seed,
                                                      hosts == placements(ranks)[0] && seed == 3}) == "");
                            }
                }
        }
}

TEST_CASE("each rank finds its own piece in the last of the buffers that data have come through") {
    const test::TemporarySchedule file(
        "algorithm swap all_to_all(x, y) over g { each r in g, q in g x[q] : r -> y[r] : q }\n"
        "algorithm meet reduce_scatter(x) over g { each r in g, q in g where r != q x[q] : r +> q }\n"
        "schedule s reduce_scatter(x) {\n"
        "    for i in 0 ..< 2 all_to_all x over world using swap\n"
        "    reduce_scatter x over world using meet }");
    for (const auto& hosts : std::vector<std::vector<int>>{{}, {0, 0, 0}, {0, 1, 0}})
        for (const bool in_place : {false, true}) {
            auto request = test::request(Collective::reduce_scatter, file.path() + ":s", "3");
            request.hosts = hosts;
            CHECK(test::simulate(programs_of(*dsl::check_schedule(request)), {12, in_place, 1}) == "");
        }
}

TEST_CASE("memory, messages and both combine the same values in the same order") {
    int number = 0;
    dsl::Planner planner;
    for (const test::Case& item : test::cases())
        for (const char* topology : item.topologies) {
            auto request = test::request(item.collective, item.schedule, topology);
            const dsl::Rank ranks = planner.check(request)->levels().ranks();
            request.root = contract_of(item.collective).has_root() ? ranks - 1 : 0;
            constexpr std::uint64_t count = 13;
            const bool by_rank = contract_of(item.collective).is_by_rank();
            const auto folded = [&](const std::vector<dsl::RankProgram>& programs, bool in_place) {
                std::vector<std::vector<std::uint64_t>> result;
                test::SimulationOptions options{by_rank ? count * ranks : count, in_place, 1};
                options.fold = [](std::uint64_t a, std::uint64_t b) { return a * 0x9e3779b97f4a7c15u + b; };
                options.results = &result;
                CHECK(test::simulate(programs, options) == "");
                return result;
            };
            const auto by_messages = folded(programs_of(*planner.check(request)), false);
            for (const auto& hosts : placements(ranks))
                for (const auto protocol : {dsl::Protocol::bandwidth, dsl::Protocol::latency}) {
                    if (is_left_out(++number)) continue;
                    request.hosts = hosts;
                    request.protocol = protocol;
                    const auto programs = programs_of(*planner.check(request));
                    for (const bool in_place : {false, true}) {
                        INFO(name_of(item.collective)
                             << " by '" << item.schedule << "' on " << topology << ", hosts "
                             << ::Catch::Detail::stringify(hosts) << ", protocol " << int(protocol)
                             << ", in place " << in_place);
                        CHECK(folded(programs, in_place) == by_messages);
                    }
                }
        }
}

TEST_CASE("direct all_reduce among local peers is one pass over all memories, between two rendezvous") {
    auto request = test::request(Collective::all_reduce, "direct", "4");
    request.hosts = {0, 0, 0, 0};
    const auto program = dsl::check_schedule(request)->project(2);
    int passes = 0, signals = 0;
    for (const dsl::Op& op : program.ops) {
        signals += op.kind == dsl::Op::Kind::signal;
        CHECK(op.kind != dsl::Op::Kind::copy);
        CHECK(op.kind != dsl::Op::Kind::send);
        if (op.kind != dsl::Op::Kind::combine) continue;
        ++passes;
        CHECK(op.operands.size() == 4);
        CHECK(op.also.size() == 3);
    }
    CHECK(passes == 1);
    CHECK(signals == 2);
    CHECK(program.scratch.empty());
    CHECK(!program.uses_work);
}

TEST_CASE("a small all_reduce by exchange waits once for each local peer and guards nothing of its output") {
    auto request = test::request(Collective::all_reduce, "exchange", "4");
    request.hosts = {0, 0, 0, 0};
    request.protocol = dsl::Protocol::latency;
    const auto program = dsl::check_schedule(request)->project(1);
    int awaits = 0;
    for (const dsl::Op& op : program.ops) awaits += op.kind == dsl::Op::Kind::await && !op.guards_buffers;
    CHECK(awaits == 3);
    CHECK(program.shares_input);
    CHECK(!program.shares_output);
}

// Returns the first positions that others of the host use of each one's input and output, found by looking at
// each operation of each program.
std::map<dsl::Rank, std::array<std::optional<dsl::Rational>, 2>> first_uses_of(
    const std::vector<dsl::RankProgram>& programs) {
    std::map<dsl::Rank, std::array<std::optional<dsl::Rational>, 2>> first;
    for (const dsl::RankProgram& program : programs)
        for (const dsl::Op& op : program.ops) {
            const auto note = [&](dsl::AreaId area) {
                const dsl::AreaId memory = program.memory_of(area);
                if (memory < dsl::areas_of_a_rank || memory >= program.first_scratch()) return;
                if (memory % dsl::areas_of_a_rank == dsl::work_area) return;
                const dsl::ShiftedArea* shifted =
                    memory == area ? nullptr : &program.shifted[area - program.first_shifted()];
                dsl::BoundaryId begin = op.begin;
                if (shifted) begin = shifted->from + (op.begin - shifted->at);
                const dsl::Rational at = program.boundaries[begin];
                auto& known = first[program.local_peers[memory / dsl::areas_of_a_rank - 1]]
                                   [memory % dsl::areas_of_a_rank];
                if (!known || at < *known) known = at;
            };
            if (!op.is_elementwise()) continue;
            for (const dsl::AreaId operand : op.operands) note(operand);
            note(op.area);
            for (const dsl::AreaId area : op.also) note(area);
        }
    return first;
}

TEST_CASE("each rank knows the first positions that others of its host use of each one's buffers") {
    int number = 0;
    dsl::Planner planner;
    for (const test::Case& item : test::cases())
        for (const char* topology : item.topologies) {
            dsl::PlanRequest request = test::request(item.collective, item.schedule, topology);
            const dsl::Rank ranks = planner.check(request)->levels().ranks();
            for (const auto& hosts : placements(ranks)) {
                if (is_left_out(++number)) continue;
                request.hosts = hosts;
                const auto programs = programs_of(*planner.check(request));
                auto expected = first_uses_of(programs);
                INFO(name_of(request.collective) << " by '" << request.schedule << "' on " << topology);
                for (const dsl::RankProgram& program : programs) {
                    if (program.local_peers.empty()) {
                        CHECK(program.first_uses.empty());
                        continue;
                    }
                    std::vector<dsl::Rank> members = program.local_peers;
                    members.insert(std::upper_bound(members.begin(), members.end(), program.rank),
                                   program.rank);
                    REQUIRE(program.first_uses.size() == members.size());
                    for (std::size_t i = 0; i < members.size(); ++i)
                        for (const dsl::AreaId area : {dsl::input_area, dsl::output_area}) {
                            const dsl::BoundaryId known = program.first_uses[i][area];
                            const auto& used = expected[members[i]][area];
                            REQUIRE(used.has_value() == (known != dsl::RankProgram::never_used));
                            if (used) CHECK(program.boundaries[known] == *used);
                        }
                }
            }
        }
}

TEST_CASE("a program with a missing dependency or a wrong operand is caught by the simulation") {
    const auto checked = dsl::check_schedule(test::request(Collective::all_reduce, "ring", "4"));
    auto programs = programs_of(*checked);
    // Without its order, rank 1 forwards data that it has not combined yet, in some order of events.
    for (dsl::Op& op : programs[1].ops) {
        op.waits_for = 0;
        op.successors.clear();
    }
    int wrong = 0;
    for (unsigned seed = 0; seed < 20; ++seed) wrong += !test::simulate(programs, {64, false, seed}).empty();
    CHECK(wrong > 0);
}

namespace {

// The steps that concern the rank, with their phases counted from 0.
std::vector<std::string> steps_of(const dsl::StepGraph& graph, dsl::Rank rank) {
    std::vector<std::string> lines;
    std::uint32_t phase = 0, last = ~0u;
    for (const dsl::Step& step : graph.steps) {
        if (step.source != rank && step.destination != rank) continue;
        if (step.phase != last) ++phase;
        last = step.phase;
        lines.push_back(fmt::format("{}: {} {} {} {} {}", phase, step.source, step.combines ? "+>" : "->",
                                    step.destination, text_of(graph.regions[step.region]),
                                    dsl::location_of(graph.origins[step.origin].transfer)));
    }
    return lines;
}

}  // namespace

// Executed programs are projections of the whole; estimates for many ranks are made from one rank's
// elaboration.
TEST_CASE("one rank's elaboration holds exactly its steps of the whole") {
    int number = 0;
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    dsl::Planner planner;
    for (const test::Case& item : test::cases())
        for (const char* topology : item.topologies) {
            auto request = test::request(item.collective, item.schedule, topology);
            if (contract_of(item.collective).has_root())
                request.root = planner.check(request)->levels().ranks() - 1;
            const auto checked = planner.check(request);
            const dsl::StepGraph& whole = checked->graph();
            const dsl::Runnable runnable = dsl::find_runnable(library, checked->name(), item.collective);
            for (dsl::Rank rank = 0; rank < whole.ranks; ++rank) {
                if (is_left_out(++number)) continue;
                INFO(name_of(item.collective)
                     << " by " << item.schedule << " on " << topology << ", rank " << rank);
                CHECK(steps_of(dsl::elaborate(runnable, library, checked->levels(),
                                              {request.root, rank, dsl::chooser_of(whole.choices)}),
                               rank) == steps_of(whole, rank));
            }
        }
}

namespace {

// All of a program but the numbers of phases, which count those of the host alone, and the fingerprint.
auto contents_of(dsl::RankProgram program) {
    for (dsl::Op& op : program.ops) op.phase = 0;
    return std::tuple(program.ops, program.boundaries, program.chunks, program.buffers, program.input_origin,
                      program.output_origin, program.uses_work, program.local_peers, program.memory_is_shared,
                      program.most_messages, program.input_read, program.output_written, program.first_uses,
                      program.output_is_apart, program.signals, program.scratch, program.shifted,
                      program.origins, program.shares_input, program.shares_output, program.shares_work);
}

}  // namespace

TEST_CASE("programs of a proof by one rank are those of a proof by all ranks") {
    std::map<Collective, int> same;
    int number = 0;
    for (const test::Case& item : test::cases())
        for (const std::string topology : item.topologies) {
            if (std::string(item.schedule).empty() || contract_of(item.collective).has_root()) continue;
            dsl::PlanRequest full = test::request(item.collective, item.schedule, topology);
            const dsl::Rank ranks = dsl::Planner().check(full)->levels().ranks();
            for (const auto& hosts : placements(ranks))
                for (const auto protocol : {dsl::Protocol::bandwidth, dsl::Protocol::latency}) {
                    if (is_left_out(++number)) continue;
                    full.hosts = hosts;
                    full.protocol = protocol;
                    dsl::PlanRequest by_one = full;
                    by_one.follow = dsl::Proofs::Follow::rank_0;
                    dsl::Planner planner;
                    try {
                        const auto one = planner.check(by_one);
                        const auto all = planner.check(full);
                        INFO(name_of(item.collective)
                             << " by '" << item.schedule << "' on " << topology << ", hosts "
                             << ::Catch::Detail::stringify(hosts) << ", protocol " << int(protocol));
                        REQUIRE(one->is_by_symmetry());
                        REQUIRE(!all->is_by_symmetry());
                        for (dsl::Rank rank = 0; rank < ranks; ++rank)
                            REQUIRE(contents_of(one->project(rank)) == contents_of(all->project(rank)));
                        ++same[item.collective];
                    } catch (const dsl::AsymmetryError&) {
                    }
                }
        }
    for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter,
                                        Collective::all_gather, Collective::all_to_all}) {
        INFO(name_of(collective) << ": " << same[collective]);
        CHECK(same[collective] > 5);
    }
}

TEST_CASE("a projection ends at its deadline") {
    dsl::PlanRequest request = test::request(Collective::all_reduce, "direct", "40");
    const auto checked = dsl::check_schedule(request);
    const dsl::Deadline past(std::chrono::duration<double>(0));
    CHECK_THROWS_WITH(dsl::project(checked->graph(), 3, {3}, dsl::Protocol::bandwidth, past),
                      Contains("while projecting a schedule onto a rank"));
    CHECK(!dsl::project(checked->graph(), 3, {3}).ops.empty());
}

TEST_CASE("programs are made of the graph that was proved, also when it was proved before") {
    dsl::Planner planner;
    const auto first = planner.check(test::request(Collective::all_reduce, "ring", "4"));
    const auto again = planner.check(test::request(Collective::all_reduce, "ring", "4"));
    CHECK(&first->graph() == &again->graph());
    // A step graph that is too large to be kept is laid out again, and compared with the one that was proved.
    std::uint64_t fingerprint = 0;
    for (int round = 0; round < 2; ++round) {
        dsl::PlanRequest request = test::request(Collective::all_gather, "direct", "1100");
        request.follow = dsl::Proofs::Follow::all_ranks;
        const auto large = planner.check(request);
        CHECK(large->graph().steps.size() == 1100 * 1099);
        CHECK(large->fingerprint() == dsl::fingerprint(large->graph()));
        if (round > 0) CHECK(large->fingerprint() == fingerprint);
        fingerprint = large->fingerprint();
    }
}

TEST_CASE("fingerprints are equal exactly where all ranks do the same") {
    const auto fingerprint = [](const char* schedule, const char* topology, dsl::Rank rank) {
        return dsl::check_schedule(test::request(Collective::all_reduce, schedule, topology))
            ->project(rank)
            .fingerprint;
    };
    CHECK(fingerprint("ring", "4", 0) == fingerprint("ring", "4", 3));
    CHECK(fingerprint("ring", "4", 0) == fingerprint("flat(ring, ring)", "2x2", 1));
    CHECK(fingerprint("ring", "4", 0) != fingerprint("direct", "4", 0));
    CHECK(fingerprint("ring", "4", 0) != fingerprint("ring", "5", 0));
    CHECK(fingerprint("blueconnect", "2x3", 0) != fingerprint("blueconnect", "3x2", 0));
    // The same intervals, divided into regions in another way.
    dsl::StepGraph one;
    const dsl::Interval a{dsl::Rational(0), {1, 4}}, b{{1, 2}, {3, 4}}, c{{3, 4}, dsl::Rational(1)};
    one.regions = {{a, b}, {c}};
    one.steps = {{0, 0, 0, 0, 1, 0, 0, false}, {0, 1, 1, 0, 1, 0, 0, false}};
    dsl::StepGraph other = one;
    other.regions = {{a}, {b, c}};
    CHECK(dsl::fingerprint(one) != dsl::fingerprint(other));
}

TEST_CASE("every rank knows whether any share memory, and the most messages that one has then") {
    const auto check = [](dsl::Planner& planner, const dsl::PlanRequest& request, bool is_shared) {
        const auto programs = programs_of(*planner.check(request));
        std::uint64_t most = 0;
        for (const dsl::RankProgram& program : programs) {
            const auto is_message = [](const dsl::Op& op) {
                return op.kind == dsl::Op::Kind::send || op.kind == dsl::Op::Kind::receive;
            };
            const auto messages = std::count_if(program.ops.begin(), program.ops.end(), is_message);
            most = std::max(most, static_cast<std::uint64_t>(messages));
        }
        INFO(name_of(request.collective) << " by '" << request.schedule << "' on " << request.topology);
        for (const dsl::RankProgram& program : programs) {
            CHECK(program.memory_is_shared == is_shared);
            if (program.local_peers.size() + 1 < programs.size())
                CHECK(program.most_messages == (is_shared ? most : 0));
        }
    };
    dsl::PlanRequest request = test::request(Collective::all_reduce, "ring", "3");
    for (const auto& [hosts, is_shared] :
         {std::pair(std::vector<int>{}, false), {{0, 1, 2}, false}, {{0, 0, 1}, true}}) {
        request.hosts = hosts;
        dsl::Planner planner;
        check(planner, request, is_shared);
    }
    int number = 0;
    dsl::Planner planner;
    for (const test::Case& item : test::cases())
        for (const char* topology : item.topologies) {
            request = test::request(item.collective, item.schedule, topology);
            const dsl::Rank ranks = planner.check(request)->levels().ranks();
            for (const auto& hosts : placements(ranks)) {
                if (is_left_out(++number)) continue;
                request.hosts = hosts;
                check(planner, request, std::set(hosts.begin(), hosts.end()).size() < hosts.size());
            }
        }
}

namespace {

struct Messages {
    int sent = 0, received = 0;
    std::size_t parts = 0;  // of all that are sent
};

Messages messages_of(const dsl::RankProgram& program) {
    Messages messages;
    for (const dsl::Op& op : program.ops) {
        messages.received += op.kind == dsl::Op::Kind::receive;
        if (op.kind != dsl::Op::Kind::send) continue;
        ++messages.sent;
        messages.parts += op.parts();
    }
    return messages;
}

// Swing (De Sensi et al. 2024): partners at the distances 1, 1, 3, 5, 11, ..., to both sides in turn.
dsl::Rank swing_partner(dsl::Rank rank, int step, dsl::Rank ranks) {
    dsl::Rank distance = 0;
    for (int i = 0, sign = 1; i <= step; ++i, sign *= -2) distance += sign;
    return ((rank % 2 == 0 ? rank + distance : rank - distance) % ranks + ranks) % ranks;
}

// The ranks that a rank reaches in this step and later, itself included. They are not side by side.
std::set<dsl::Rank> swing_reach(dsl::Rank rank, int step, int steps) {
    if (step == steps) return {rank};
    std::set<dsl::Rank> reach = swing_reach(rank, step + 1, steps);
    reach.merge(swing_reach(swing_partner(rank, step, 1 << steps), step + 1, steps));
    return reach;
}

std::string swing_all_reduce(int steps) {
    std::string text = "algorithm swing all_reduce(x) over g {\n";
    for (int round = 0; round < 2 * steps; ++round) {
        const bool scatters = round < steps;
        const int step = scatters ? round : 2 * steps - 1 - round;
        text += "each once in 0 ..< 1 {\n";
        for (dsl::Rank rank = 0; rank < 1 << steps; ++rank) {
            const dsl::Rank partner = swing_partner(rank, step, 1 << steps);
            for (const dsl::Rank chunk : swing_reach(scatters ? partner : rank, step + 1, steps))
                text += fmt::format("x[{}] : {} {} {}\n", chunk, rank, scatters ? "+>" : "->", partner);
        }
        text += "}\n";
    }
    return text + "}\n";
}

}  // namespace

TEST_CASE("what one rank sends another in a phase is one message") {
    const auto bruck = dsl::check_schedule(test::request(Collective::all_to_all, "bruck", "6"));
    for (const dsl::RankProgram& program : programs_of(*bruck)) {
        INFO("rank " << program.rank);
        CHECK(messages_of(program).sent == 3);
        CHECK(messages_of(program).received == 3);
    }
    for (const dsl::Rank ranks : {2, 3, 5, 8, 13}) {
        const auto size = std::to_string(ranks);
        int steps = 0;
        while (1 << steps < ranks) ++steps;
        for (const dsl::Rank root : {0, ranks - 1}) {
            INFO(ranks << " ranks, root " << root);
            const auto gather = programs_of(
                *dsl::check_schedule(test::request(Collective::gather, "binomial", size, 0, root)));
            CHECK(messages_of(gather[static_cast<std::size_t>(root)]).received == steps);
            const auto scatter = programs_of(
                *dsl::check_schedule(test::request(Collective::scatter, "binomial", size, 0, root)));
            CHECK(messages_of(scatter[static_cast<std::size_t>(root)]).sent == steps);
            for (dsl::Rank rank = 0; rank < ranks; ++rank) {
                if (rank == root) continue;
                CHECK(messages_of(gather[static_cast<std::size_t>(rank)]).sent == 1);
                CHECK(messages_of(scatter[static_cast<std::size_t>(rank)]).received == 1);
            }
        }
    }
}

TEST_CASE("a swing, whose pieces lie apart, sends as few messages as halving") {
    const test::TemporarySchedule file(swing_all_reduce(3));
    const auto programs =
        programs_of(*dsl::check_schedule(test::request(Collective::all_reduce, file.path(), "8")));
    std::size_t parts = 0;
    for (const dsl::RankProgram& program : programs) {
        const Messages messages = messages_of(program);
        CHECK(messages.sent == 6);
        CHECK(messages.received == 6);
        parts = std::max(parts, messages.parts);
    }
    CHECK(parts > 6);
    CHECK(test::rendezvous(programs) == "");
    for (const std::uint64_t count : {1, 7, 8, 100})
        for (const bool in_place : {false, true}) CHECK(test::simulate(programs, {count, in_place, 1}) == "");
}

TEST_CASE("a direct reduce-scatter combines all messages in one operation, in rank order") {
    const auto program =
        dsl::check_schedule(test::request(Collective::reduce_scatter, "direct", "4"))->project(2);
    int combines = 0;
    for (const dsl::Op& op : program.ops)
        if (op.kind == dsl::Op::Kind::combine) {
            ++combines;
            REQUIRE(op.operands.size() == 4);
            CHECK(op.operands[2] == dsl::input_area);
            CHECK(op.area == dsl::output_area);
        }
    CHECK(combines == 1);
    CHECK(!program.uses_work);
}

TEST_CASE("an exchange of one place between two ranks goes through scratch, and cannot block itself") {
    // Both ranks overwrite the data that they send in the same phase.
    const auto checked = dsl::check_schedule({Collective::all_reduce,
                                              std::string(HOCKET_TEST_DATA) + "/exchange.sched",
                                              "2",
                                              {HOCKET_SCHEDULES_DIR},
                                              2,
                                              0});
    const auto programs = programs_of(*checked);
    for (const bool in_place : {false, true}) CHECK(test::simulate(programs, {10, in_place, 3}) == "");
    CHECK(test::rendezvous(programs) == "");
    for (const dsl::Op& op : programs[0].ops)
        if (op.kind == dsl::Op::Kind::receive) {
            CHECK(op.area >= dsl::areas_of_a_rank);
            CHECK(op.waits_for == 0);
        }
}

TEST_CASE("what a rank sends between hosts is not overwritten by a local peer meanwhile") {
    auto request =
        test::request(Collective::all_reduce, std::string(HOCKET_TEST_DATA) + "/overtake.sched", "3");
    request.hosts = {0, 0, 1};
    for (const auto protocol : {dsl::Protocol::bandwidth, dsl::Protocol::latency}) {
        request.protocol = protocol;
        const auto programs = programs_of(*dsl::check_schedule(request));
        for (const bool in_place : {false, true})
            for (const unsigned seed : {1u, 2u, 3u})
                CHECK(test::simulate(programs, {10, in_place, seed}) == "");
        CHECK(test::rendezvous(programs) == "");
    }
}
