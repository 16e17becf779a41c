#include "dsl/planning/choose.hpp"

#include <fmt/format.h>

#include <bit>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include "dsl/planning/estimate.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using dsl::Collective;

namespace {

constexpr std::uint64_t KiB = 1024, MiB = 1024 * KiB;
using dsl::all_collectives;

dsl::Chosen chosen(const std::string& topology, std::uint64_t bytes,
                   Collective collective = Collective::all_reduce, dsl::Rank root = 0) {
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    return dsl::choose_schedule(library, dsl::find_topology(library, topology, 0), collective, root, bytes);
}

std::unique_ptr<dsl::CheckedSchedule> checked(const std::string& schedule, const std::string& topology,
                                              std::uint64_t bytes,
                                              Collective collective = Collective::all_reduce) {
    dsl::PlanRequest request = test::request(collective, schedule, topology);
    request.bytes = bytes;
    return dsl::check_schedule(request);
}

// The data that the busiest host sends, as a multiple of x.
double sent_by_a_host(const dsl::StepGraph& graph, dsl::Rank local) {
    std::map<dsl::Rank, double> sent;
    for (const dsl::Step& step : graph.steps)
        if (step.source / local != step.destination / local)
            sent[step.source / local] += dsl::length_of(graph.regions[step.region]);
    double most = 0;
    for (const auto& [host, length] : sent) most = std::max(most, length);
    return most;
}

}  // namespace

TEST_CASE("the choice goes from few waits to few bytes as the size grows") {
    const std::set<std::string> few_waits = {"exchange", "butterfly"},
                                few_bytes = {"direct", "ring", "halving"};
    for (const char* topology : {"4", "8h", "4m", "4m/2", "16", "2m", "2h"}) {
        int flips = 0;
        bool small = true;
        for (std::uint64_t bytes = 8; bytes <= 1024 * MiB; bytes *= test::in_long_form(4, 16)) {
            const dsl::Chosen choice = chosen(topology, bytes);
            const bool now = few_waits.count(choice.name) > 0;
            INFO(topology << " " << bytes << ": " << choice.why);
            CHECK((now || few_bytes.count(choice.name)));
            if (bytes == 8) CHECK(now);
            flips += small != now;
            small = now;
        }
        INFO(topology);
        // Two hosts: an exchange sends no more than anything else would.
        CHECK(flips == (std::string(topology) == "2h" ? 0 : 1));
    }
}

TEST_CASE("on several hosts large buffers cross the links as few times as is possible") {
    for (const auto& [topology, local, hosts] :
         {std::tuple("2mx2h@1Gb/s", 2, 2), {"2mx4h@1Gb/s", 2, 4}, {"4mx3h@1Gb/s", 4, 3}}) {
        const auto choice = checked("", topology, 64 * MiB);
        INFO(topology << ": " << choice->choices()[0]);
        CHECK(sent_by_a_host(choice->graph(), local) == Approx(2.0 * (hosts - 1) / hosts));
        const auto gather = checked("", topology, 64 * MiB, Collective::all_gather);
        CHECK(sent_by_a_host(gather->graph(), local) <= 1);
        const auto broadcast = checked("", topology, 64 * MiB, Collective::broadcast);
        CHECK(sent_by_a_host(broadcast->graph(), local) == Approx(1));
    }
    CHECK(chosen("2mx4h@1Gb/s", 64 * MiB).name == "torus");
    CHECK(chosen("2mx2h@1Gb/s", 64 * MiB).name == "sharded");  // one exchange across, as many bytes
    CHECK_THAT(chosen("2mx4h@1Gb/s", 64 * MiB, Collective::broadcast).name, StartsWith("chain"));
}

TEST_CASE("of what sends alike, that which copies less is chosen") {
    for (const char* topology : {"2h", "2", "2h@1Gb/s", "2h@100Gb/s"})
        for (std::uint64_t bytes = 64; bytes <= 1024 * MiB; bytes *= 16)
            CHECK(chosen(topology, bytes, Collective::all_to_all).name == "direct");
}

TEST_CASE("on hosts of different numbers of ranks, little crosses the links") {
    const auto crossing = [](const char* topology, Collective collective) {
        const auto choice = checked("", topology, 8 * MiB, collective);
        const std::vector<dsl::Rank> hosts = choice->levels().levels[0].hosts;
        REQUIRE(hosts.size() > 1);
        std::map<dsl::Rank, double> sent;
        for (const dsl::Step& step : choice->graph().steps) {
            const auto host = [&](dsl::Rank rank) {
                return dsl::first_of_host(choice->levels().levels[0], rank);
            };
            if (host(step.source) != host(step.destination))
                sent[host(step.source)] += dsl::length_of(choice->graph().regions[step.region]);
        }
        double most = 0;
        for (const auto& [host, length] : sent) most = std::max(most, length);
        INFO(topology << ": " << choice->choices()[0]);
        return most;
    };
    for (const char* topology : {"3+2h@1Gb/s", "4+1h@1Gb/s", "2+3+4h@1Gb/s"}) {
        INFO(topology);
        CHECK(crossing(topology, Collective::broadcast) <= 1.01);
        CHECK(crossing(topology, Collective::reduce) <= 1.01);
        CHECK(crossing(topology, Collective::all_gather) < 1);
        CHECK(crossing(topology, Collective::reduce_scatter) < 1);
        CHECK(crossing(topology, Collective::all_reduce) < 2);
    }
}

TEST_CASE("what is chosen can be asked for by its name, and is the same") {
    int number = 0;
    for (const Collective collective : all_collectives)
        for (const char* topology : {"1", "2", "6", "4m", "3mx2h", "2mx3h@1Gb/s", "2x2x2", "bcube(3, 2)"})
            for (const std::uint64_t bytes : {std::uint64_t{8}, 32 * KiB, 64 * MiB}) {
                if (number++ % test::in_long_form(1, 7) != 0) continue;
                const dsl::Chosen choice = chosen(topology, bytes, collective);
                const auto by_size = checked("", topology, bytes, collective);
                const auto by_name = checked(choice.name, topology, bytes, collective);
                INFO(choice.why);
                CHECK(by_size->name() == choice.name);
                CHECK(by_name->name() == choice.name);
                REQUIRE(by_size->choices().size() == by_name->choices().size() + 1);
                CHECK(by_size->choices()[0] == choice.why);
                CHECK(dsl::estimate(by_size->graph(), by_size->levels(), double(bytes)) ==
                      Approx(choice.seconds));
                for (dsl::Rank rank = 0; rank < by_size->levels().ranks(); ++rank)
                    CHECK(by_size->project(rank).fingerprint == by_name->project(rank).fingerprint);
            }
}

TEST_CASE("all ranks choose the same, whatever they have chosen before") {
    dsl::Library used({HOCKET_SCHEDULES_DIR});
    const dsl::Topology topology = dsl::host_topology(3, 2);
    dsl::Proofs proofs(used, topology);
    dsl::Choices choices(used, topology, proofs);
    for (const std::uint64_t bytes : {64 * MiB, std::uint64_t{8}, 64 * KiB, 1 * MiB, std::uint64_t{8}})
        for (const auto& [collective, root] :
             {std::pair(Collective::all_reduce, 0),
              {Collective::reduce, 4},
              {Collective::gather, 1},
              {Collective::scatter, 5},
              {Collective::broadcast, 4},
              {Collective::broadcast, 0}}) {  // a chain from 0 crosses hosts once, one from 4 twice
            const dsl::Chosen& choice = choices.schedule(collective, root, bytes);
            const dsl::Chosen fresh = chosen("3mx2h", bytes, collective, root);
            CHECK(choice.name == fresh.name);
            CHECK(choice.why == fresh.why);
        }
    CHECK(chosen("3mx2h", 0).why == chosen("3mx2h", MiB).why);
}

TEST_CASE("the reason lists those that can run, from the cheapest, at this size") {
    const dsl::Chosen six = chosen("6", 64 * KiB);
    CHECK_THAT(six.why, StartsWith("all_reduce of 64 KiB on 6 (6 ranks): " + six.name + " "));
    CHECK_THAT(six.why, Contains(" ring ") && Contains(" flat(ring, ring) ") && Contains(" nested ") &&
                            Contains(" us") && !Contains("halving") && !Contains("wrong"));
    CHECK_THAT(chosen("8", 64 * KiB).why, Contains("halving"));
    const dsl::Chosen gather = chosen("8", 64 * KiB, Collective::all_gather);
    CHECK_THAT(gather.why, Contains(" doubling "));  // an algorithm that no schedule has the name of
}

TEST_CASE("only what is right is chosen") {
    const test::TemporaryFolder folder;
    folder.write("a.sched",
                 "schedule nothing all_reduce(x) { }\n"
                 "schedule asymmetric all_reduce(x) { each r in world where r > 0 x : r +> 0 }\n"
                 "schedule elsewhere all_reduce(x) where ranks > 100 { }\n"
                 "schedule gone all_reduce(x) { all_reduce x over world using missing }\n"
                 "schedule slow all_reduce(x) { all_reduce x over world using slow }\n"
                 "algorithm slow all_reduce(x) over g { each r in g where r > 0 x : r +> 0\n"
                 " for r in 1 ..< g.size x : 0 -> r }\n");
    dsl::Library library({folder.path()});
    const dsl::Chosen choice =
        dsl::choose_schedule(library, dsl::grid_topology("4h"), Collective::all_reduce, 0, KiB);
    CHECK(choice.name == "slow");
    CHECK_THAT(choice.why, Contains("nothing 0 us (wrong here), asymmetric ") &&
                               Contains("us (wrong here), slow ") && !Contains("elsewhere") &&
                               !Contains("gone"));
    CHECK_THAT(
        test::error_of(
            [&] { dsl::choose_schedule(library, dsl::grid_topology("4h"), Collective::broadcast, 0, KiB); }),
        Contains("there is no schedule for broadcast that runs on topology 4h") && Contains(folder.path()));
}

TEST_CASE("what is in a compared folder runs by its name, and is never chosen") {
    const test::TemporaryFolder folder;
    std::filesystem::create_directory(folder.path() + "/compared");
    folder.write("a.sched",
                 "algorithm slow all_reduce(x) over g { each r in g where r > 0 x : r +> 0\n"
                 " for r in 1 ..< g.size x : 0 -> r }\n"
                 "algorithm named all_reduce(x) over g { each r in g, q in g where q != r x : r +> q }\n"
                 "schedule plain all_reduce(x) { all_reduce x over world }\n");
    folder.write("compared/b.sched",
                 "algorithm fast all_reduce(x) over g { each r in g, q in g where q != r x : r +> q }\n"
                 "schedule named all_reduce(x) { all_reduce x over world using fast }\n");
    const auto check = [&](const std::string& schedule) {
        return dsl::check_schedule({Collective::all_reduce, schedule, "4h", {folder.path()}, 0});
    };
    for (const char* schedule : {"fast", "named"}) {
        CHECK(check(schedule)->name() == schedule);
        CHECK(check(schedule)->choices().empty());
    }
    // The name would run the schedule, so the algorithm is taken inside a schedule alone.
    const auto choice = check("");
    CHECK(choice->name() == "plain");
    CHECK_THAT(choice->choices()[0], Contains(" slow ") && !Contains(" fast ") && !Contains(" named "));
    CHECK_THAT(choice->choices()[1], Contains(": named ") && !Contains(" fast "));
}

TEST_CASE("the library's compared folder leaves all choices as they are without it") {
    const test::TemporaryFolder folder;
    namespace fs = std::filesystem;
    fs::copy(HOCKET_SCHEDULES_DIR, folder.path(), fs::copy_options::recursive);
    REQUIRE(fs::remove_all(folder.path() + "/compared") > 1);
    int number = 0;
    for (const Collective collective : all_collectives)
        for (const char* topology : {"5", "4m", "3mx2h", "2mx4h@1Gb/s", "2x2x3"})
            for (const std::uint64_t bytes : {std::uint64_t{8}, 64 * KiB, 64 * MiB}) {
                if (number++ % test::in_long_form(1, 7) != 0) continue;
                dsl::PlanRequest request{collective, "", topology, {folder.path()}, 0};
                request.bytes = bytes;
                const auto without = dsl::check_schedule(request),
                           with = checked("", topology, bytes, collective);
                CHECK(with->name() == without->name());
                CHECK(with->choices().size() == without->choices().size());
                CHECK(with->fingerprint() == without->fingerprint());
            }
}

TEST_CASE("inside a schedule, the choice is for the part that the group works on") {
    const auto sizes = [](const dsl::CheckedSchedule& schedule) {
        std::vector<std::string> result;
        for (const std::string& choice : schedule.choices())
            result.push_back(choice.substr(choice.rfind("at ") + 3));
        return result;
    };
    using Texts = std::vector<std::string>;
    CHECK(sizes(*checked("blueconnect", "4x8x2", MiB)) ==
          Texts{"1 MiB)", "256 KiB)", "32 KiB)", "32 KiB)", "256 KiB)", "1 MiB)"});
    CHECK(sizes(*checked("blueconnect", "4x8x2", 0))[0] == "1 MiB)");
    CHECK(sizes(*checked("blueconnect", "4x1x2", MiB)) ==
          Texts{"1 MiB)", "256 KiB)", "256 KiB)", "1 MiB)"});  // nothing is chosen for one rank
    CHECK(sizes(*checked("default", "4x2", MiB, Collective::all_gather)) == Texts{"256 KiB)", "1 MiB)"});
    CHECK(sizes(*checked("default", "4x2", MiB, Collective::broadcast)) == Texts{"1 MiB)", "1 MiB)"});
    // Parts, and statements that name their algorithm.
    const test::TemporarySchedule file(
        "schedule s all_reduce(x) {\n"
        "  reduce_scatter x over levels[0] using ring\n"
        "  parallel t in 0 ..< 2 { let y = x.part(t of 2) all_reduce y over levels[1] }\n"
        "  all_gather x over levels[0] using ring }");
    CHECK(sizes(*checked(file.path(), "4x2", MiB)) == Texts{"128 KiB)", "128 KiB)"});
}

TEST_CASE("inside a schedule, the choice goes with the size") {
    const std::string level = "all_reduce over host (8 ranks): ";
    CHECK_THAT(checked("sharded", "8h", 8)->choices()[0], Contains(level + "exchange"));
    CHECK_THAT(checked("sharded", "8h", 64 * MiB)->choices()[0], Contains(level + "butterfly"));
    // A link that eight ranks share is slow for each of them, so that bytes count sooner.
    CHECK_THAT(checked("sharded", "8h", 4 * KiB)->choices()[0], Contains(level + "exchange"));
    CHECK_THAT(checked("nested", "8mx8h", 4 * KiB)->choices()[1], Contains(level + "butterfly"));
}

TEST_CASE("the library's schedules for levels and pipelines are right") {
    int number = 0;
    for (const char* topology : {"1", "2", "5", "2x3", "3x2x2", "2x1x3", "4mx2h"}) {
        CHECK(checked("sharded", topology, KiB)->name() == "sharded");
        CHECK(checked("nested", topology, KiB)->name() == "nested");
        const dsl::Rank ranks = checked("ring", topology, KiB)->levels().ranks();
        for (const auto& [collective, names] :
             {std::pair<Collective, std::vector<const char*>>(
                  Collective::broadcast,
                  {"chain", "chain(3)", "scatter", "direct", "binomial", "tree", "default"}),
              {Collective::reduce, {"direct", "binomial", "tree", "rabenseifner", "default"}},
              {Collective::gather, {"direct", "binomial", "default"}},
              {Collective::scatter, {"direct", "binomial", "default"}}})
            for (const char* name : names)
                for (const dsl::Rank root : {0, ranks / 2, ranks - 1}) {
                    if (number++ % test::in_long_form(1, 4) != 0) continue;
                    CHECK(test::error_of([&] {
                              dsl::check_schedule(test::request(collective, name, topology, 0, root));
                          }) == "");
                }
    }
}

// docs/performance.md has the times.
TEST_CASE("large worlds are chosen for") {
    for (const char* topology : {test::in_long_form("8x16x8", "4x8x4"), "4mx250h"}) {
        const dsl::Chosen choice = chosen(topology, MiB);
        INFO(topology << ": " << choice.why);
        CHECK(choice.seconds < 0.01);  // estimated for 1 MiB; one ring of 1,000 ranks takes 55 ms
        CHECK(choice.name != "direct");
    }
}

TEST_CASE("topologies of hosts have a short form") {
    const dsl::Topology both = dsl::host_topology(2, 3);
    CHECK(both.name == "2mx3h");
    REQUIRE(both.levels.size() == 2);
    CHECK(both.levels[0].name == "local");
    CHECK(both.levels[0].medium == dsl::Medium::memory);
    CHECK(both.levels[0].latency == dsl::memory_latency);
    CHECK(both.levels[0].bandwidth == dsl::memory_bandwidth);
    CHECK(both.levels[1].name == "host");
    CHECK(both.levels[1].medium == dsl::Medium::fabric);
    CHECK(both.levels[1].latency == 30e-6);
    CHECK(both.levels[1].bandwidth == 1.25e9);
    CHECK(both.levels[1].shared_by == "local");
    CHECK(dsl::host_topology(4, 1).name == "4m");
    CHECK(dsl::host_topology(1, 4).name == "4h");
    CHECK(dsl::host_topology(1, 4).levels[0].shared_by.empty());
    CHECK(dsl::host_topology(1, 1).name == "1m");
    CHECK(dsl::host_topology(4, 2, 2, 125e6).name == "4m/2x2h@125MB/s");
    for (const dsl::Topology& topology :
         {both, dsl::host_topology(4, 2, 2, 125e6), dsl::host_topology(8, 2, 0, 1e9 / 3)}) {
        const dsl::Topology again = dsl::grid_topology(topology.name);
        REQUIRE(again.levels.size() == 2);
        CHECK(again.name == topology.name);
        CHECK(again.levels[0].cores == topology.levels[0].cores);
        CHECK(again.levels[1].bandwidth == topology.levels[1].bandwidth);
    }
    CHECK(dsl::host_topology(2, 2, 0, 1e9 / 3).levels[1].bandwidth == Approx(1e9 / 3));
    CHECK(dsl::grid_topology("2h@1.5Gb/s").levels[0].bandwidth == 187.5e6);
    CHECK(dsl::grid_topology("2h@10B/s").levels[0].bandwidth == 10);
    CHECK(dsl::grid_topology("4mx2h@25MB/s,17us").levels[1].latency == Approx(17e-6));
    CHECK(dsl::grid_topology("4mx2h@25MB/s,17us").levels[1].bandwidth == 25e6);
    CHECK(dsl::grid_topology("2x3").levels[1].medium == dsl::Medium::fabric);  // no word of a medium: as ever
    CHECK(dsl::grid_topology("2x3").levels[1].name == "l1");
    CHECK(dsl::grid_topology("2mx3mx2h").levels[1].name == "local1");
    CHECK(dsl::grid_topology("2mx3mx2h").levels[2].shared_by == "local1");
    CHECK(dsl::grid_topology("3hx2m").levels[0].shared_by == "local");
    CHECK(dsl::grid_topology("3+2h@25MB/s,17us").levels[0].hosts == std::vector<dsl::Rank>{3, 2});
    CHECK(dsl::grid_topology("3+2h@25MB/s,17us").levels[0].size == 5);
    CHECK(dsl::grid_topology("3+2h").levels[0].name == "host");
    for (const char* text : {"3+2", "3+2m", "3+h", "3+2hx2", "2x3+2h", "3+0h", "1048576+1h"})
        CHECK_THROWS_AS(dsl::grid_topology(text), dsl::DiagnosticError);
    for (const char* text : {"", "m", "x2m", "2.sched", "4m/a.sched:b"})
        CHECK(dsl::grid_topology(text).levels.empty());
    CHECK(checked("blueconnect", "2mx3h", MiB)->topology() == "2mx3h");
}

TEST_CASE("a short form is the topology that its definition builds, and plans come out the same") {
    const std::string local = "level local[4] { medium memory latency 300ns bandwidth 40GB/s }";
    const auto host = [](const std::string& rate, const std::string& more) {
        return "level host[3] { medium fabric latency 30us bandwidth " + rate + more + " }";
    };
    for (const auto& [short_form, body] :
         {std::pair<std::string, std::string>("4m", local),
          {"3h", host("10Gb/s", "")},
          {"4mx3h", local + host("1.25GB/s", " shared by local")},
          {"4mx3h@1Gb/s", local + host("125MB/s", " shared by local")},
          {"3hx4m", host("10Gb/s", " shared by local") + local},
          {"3x4", "level l0[3] { } level l1[4] { }"},
          {"2x4mx3h@1Gb/s", "level l0[2] { }" + local + host("1Gb/s", " shared by local")}}) {
        INFO(short_form);
        const test::TemporarySchedule file("topology t { " + body + " }");
        dsl::Library library({HOCKET_SCHEDULES_DIR});
        const dsl::Topology grid = dsl::grid_topology(short_form);
        const dsl::Topology built = dsl::find_topology(library, file.path(), 0);
        REQUIRE(grid.levels.size() == built.levels.size());
        for (std::size_t i = 0; i < grid.levels.size(); ++i) {
            const dsl::Level &a = grid.levels[i], &b = built.levels[i];
            INFO("level " << i);
            CHECK(a.name == b.name);
            CHECK(a.size == b.size);
            CHECK(a.medium == b.medium);
            CHECK(a.latency == Approx(b.latency).epsilon(1e-12));
            CHECK(a.bandwidth == Approx(b.bandwidth).epsilon(1e-12));
            CHECK(a.shared_by == b.shared_by);
            CHECK(a.cores == b.cores);
        }
        for (const std::uint64_t bytes : {64 * KiB, 16 * MiB}) {
            const auto short_plan = checked("", short_form, bytes), plan = checked("", file.path(), bytes);
            CHECK(short_plan->name() == plan->name());
            CHECK(short_plan->fingerprint() == plan->fingerprint());
            CHECK(dsl::estimate(short_plan->graph(), grid, double(bytes)) ==
                  Approx(dsl::estimate(plan->graph(), built, double(bytes))));
        }
    }
}

TEST_CASE("the candidates begin with the choice, and each does something else") {
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    int number = 0;
    for (const char* topology : {"2m", "4m/2", "2mx3h", "5"})
        for (const Collective collective : all_collectives)
            for (const std::uint64_t bytes : {std::uint64_t{64}, MiB}) {
                if (number++ % test::in_long_form(1, 3) != 0) continue;
                const auto names = dsl::candidate_names(library, dsl::find_topology(library, topology, 0),
                                                        collective, 0, bytes);
                INFO(topology << " " << dsl::name_of(collective) << " " << bytes);
                REQUIRE(!names.empty());
                CHECK(names.front() == chosen(topology, bytes, collective).name);
                std::set<std::uint64_t> different;
                for (const std::string& name : names)
                    different.insert(dsl::fingerprint(checked(name, topology, bytes, collective)->graph()));
                CHECK(different.size() == names.size());
            }
}

TEST_CASE("a schedule that is laid out is estimated as it is when it's a candidate") {
    // On 300 ranks one rank's steps stand for all in the proof, on 2,000 in the estimate of all but trees,
    // too.
    for (const char* topology : {"2mx3h", "bcube(3,2)", "300", "2000"})
        for (const Collective collective : {Collective::all_reduce, Collective::broadcast}) {
            const dsl::Chosen choice = chosen(topology, MiB, collective);
            const auto schedule = checked(choice.name, topology, MiB, collective);
            INFO(topology << ": " << choice.why);
            CHECK(schedule->estimate(MiB, 4) == Approx(choice.seconds).epsilon(1e-9));
        }
}

TEST_CASE("a number of tiles is chosen for the size, and none of the others takes less time") {
    int number = 0;
    for (const auto& [topology, collective] : {std::pair("3h", Collective::broadcast),
                                               {"16h", Collective::reduce},
                                               {"2mx4h@1Gb/s", Collective::broadcast},
                                               {"7", Collective::reduce}})
        for (const char* schedule : {"chain", "double_tree"})
            for (const std::uint64_t bytes : {std::uint64_t{8}, 256 * KiB, 16 * MiB}) {
                if (number++ % test::in_long_form(1, 3) != 0) continue;
                const auto seconds = [&](const std::string& name) {
                    const auto named = checked(name, topology, bytes, collective);
                    return dsl::estimate(named->graph(), named->levels(), double(bytes));
                };
                const std::string name = checked(schedule, topology, bytes, collective)->name();
                const double best = seconds(name);
                INFO(name << " on " << topology << " for " << bytes);
                CHECK(checked(std::string(schedule) + "(auto)", topology, bytes, collective)->name() == name);
                CHECK(
                    checked(std::string(schedule) + "(tiles = auto)", topology, bytes, collective)->name() ==
                    name);
                for (int tiles = 1;
                     tiles <= test::in_long_form(256, 64) && tiles * 4 <= static_cast<double>(bytes);
                     tiles *= 2)
                    CHECK(best <= seconds(fmt::format("{}({})", schedule, tiles)) * (1 + 1e-9));
            }
    // As many as the links are fast: 16 tiles take almost twice as long.
    const dsl::Chosen large = chosen("16h", 1024 * MiB, Collective::broadcast);
    const auto sixteen = checked("chain(16)", "16h", 1024 * MiB, Collective::broadcast);
    CHECK(large.seconds < 0.56 * dsl::estimate(sixteen->graph(), sixteen->levels(), 1024.0 * MiB));
}

TEST_CASE("the estimate of many tiles, which are not laid out, is that of their graph") {
    for (const auto& [schedule, topology] : {std::pair("chain", test::in_long_form("300h", "150h")),
                                             {"double_tree", test::in_long_form("600h", "300h")}}) {
        const std::uint64_t bytes = 512 * MiB;
        const auto named = checked(schedule, topology, bytes, Collective::broadcast);
        const dsl::Chosen choice = chosen(topology, bytes, Collective::broadcast);
        INFO(named->name() << ": " << choice.why);
        const std::size_t at = choice.why.find(named->name() + " ");
        REQUIRE(at != std::string::npos);
        const double estimated = std::stod(choice.why.substr(at + named->name().size() + 1));
        const double whole = dsl::estimate(named->graph(), named->levels(), double(bytes));
        const bool is_in_ms = choice.why.find("ms", at) < choice.why.find(',', at);
        CHECK(estimated * (is_in_ms ? 1e-3 : 1) == Approx(whole).epsilon(0.05));
        CHECK(named->graph().steps.size() > 1 << 15);
    }
}

namespace {

std::string in_tiles(const std::vector<std::string>& folders, const std::string& schedule,
                     const std::string& topology, std::uint64_t bytes) {
    dsl::Library library(folders);
    const dsl::Topology levels = dsl::find_topology(library, topology, 0);
    dsl::Proofs proofs(library, levels);
    dsl::Choices choices(library, levels, proofs);
    const dsl::Runnable runnable = dsl::find_runnable(library, schedule, Collective::broadcast);
    const std::string first = choices.in_tiles(runnable, 0, bytes).name;
    // Neither does what it remembers of another root or size decide anything.
    choices.in_tiles(runnable, 1, 2 * bytes);
    CHECK(choices.in_tiles(runnable, 0, bytes).name == first);
    return first;
}

std::string tiled(const std::string& header) {
    return "schedule " + header +
           " {\n"
           "    for t in 0 ..< tiles {\n"
           "        let y = x.part(t of tiles)\n"
           "        broadcast y over world from root using chain\n"
           "    }\n"
           "}\n";
}

}  // namespace

TEST_CASE("a schedule that does not run in some numbers of tiles is chosen in another") {
    const test::TemporaryFolder folder;
    folder.write("late.sched", tiled("late broadcast(x, root; tiles = auto, half = 16 / (tiles - 1))"));
    folder.write("many.sched", tiled("many broadcast(x, root; tiles = auto) where tiles > 2"));
    const std::vector<std::string> folders = {folder.path(), HOCKET_SCHEDULES_DIR};
    dsl::Library library(folders);
    const dsl::Topology topology = dsl::find_topology(library, "16h", 0);
    for (const std::uint64_t bytes : {std::uint64_t{8}, MiB, 1024 * MiB}) {
        const dsl::Chosen choice = dsl::choose_schedule(library, topology, Collective::broadcast, 0, bytes);
        INFO(choice.why);
        CHECK_THAT(choice.why, Contains(" late(") && Contains(" many("));
    }
    // One tile, if it ran, would take the least time for few bytes.
    CHECK_THAT(in_tiles(folders, "late", "16h", 8), StartsWith("late(2"));
    CHECK_THAT(in_tiles(folders, "many", "16h", 8), StartsWith("many(4"));
    CHECK_THAT(in_tiles(folders, "many", "16h", 1024 * MiB), StartsWith("many(1024"));
}

TEST_CASE("no number of tiles is chosen whose proof would take long") {
    const std::vector<std::string> folders = {HOCKET_SCHEDULES_DIR};
    CHECK(in_tiles(folders, "chain", "16h", 4096 * MiB) == "chain(1024)");
    CHECK(in_tiles(folders, "chain", "4096h", 4096 * MiB) == "chain(512)");
    CHECK(in_tiles(folders, "chain", "40000h", 4096 * MiB) == "chain(32)");
}

TEST_CASE("only a schedule's number of tiles can be left to the compiler") {
    const test::TemporarySchedule file(
        "algorithm a broadcast(x, root; radix = auto) over g { each q in g where q != root x : root -> q }\n"
        "topology t(n = auto) { level l[n] { } }\n");
    CHECK_THAT(
        test::error_of([&] { dsl::check_schedule(test::request(Collective::broadcast, file.path(), "3")); }),
        Contains("only a schedule's number of tiles can be `auto`"));
    CHECK_THAT(test::error_of([&] {
                   dsl::check_schedule(test::request(Collective::broadcast, "binomial", file.path() + ":t"));
               }),
               Contains("only a schedule's number of tiles can be `auto`"));
}

TEST_CASE("small data take logarithmically many steps on any number of hosts") {
    const double alpha = 30e-6;
    int number = 0;
    for (const char* topology : {"48h", "100h", "200h"}) {
        const int ranks = std::stoi(topology), steps = std::bit_width(static_cast<unsigned>(ranks - 1));
        for (const auto& [collective, most] : {std::pair(Collective::all_reduce, steps + 1),
                                               {Collective::all_gather, steps},
                                               {Collective::reduce_scatter, steps},
                                               {Collective::broadcast, steps},
                                               {Collective::reduce, steps},
                                               {Collective::gather, steps},
                                               {Collective::scatter, steps}}) {
            if (number++ % test::in_long_form(1, 3) != 0) continue;
            const dsl::Chosen choice = chosen(topology, 64, collective);
            INFO(topology << ": " << choice.why);
            CHECK(choice.seconds < (most + 0.2) * alpha);
        }
    }
}
