// Predictions in which rank 0 stands for all ranks, compared with those that follow every rank.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "dsl/planning/to_predict.hpp"
#include "dsl/prediction/predict.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/dsl/prediction.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using dsl::Collective;
using dsl::Rank;
using dsl::WhoseSteps;
using test::exactly;

namespace {

struct Question {
    std::string schedule, topology, network;
    Collective collective = Collective::all_reduce;
    double bytes = 1e6;
};

dsl::ScheduleToPredict laid_out(const Question& question, WhoseSteps whose) {
    dsl::PlanRequest request = test::request(question.collective, question.schedule, question.topology);
    request.bytes = static_cast<std::uint64_t>(question.bytes);
    return dsl::Planner().to_predict(
        request,
        [&](const dsl::Topology& topology) {
            return std::make_shared<const dsl::Network>(dsl::find_network(question.network, topology));
        },
        whose);
}

dsl::Prediction prediction_of(const dsl::ScheduleToPredict& schedule, double bytes, bool is_ideal) {
    constexpr Rank most_certified = 64;  // with more flows, to certify each solution takes long
    const dsl::PredictOptions options{.ideal = is_ideal,
                                      .certifies = schedule.topology.ranks() <= most_certified,
                                      .symmetry = schedule.symmetry ? &*schedule.symmetry : nullptr};
    return dsl::Predictor(*schedule.graph, *schedule.network, options).predict(bytes);
}

void check_same(const dsl::Prediction& one, const dsl::Prediction& all) {
    CHECK(one.seconds == exactly(all.seconds));
    CHECK(one.latency == Approx(all.latency).epsilon(1e-9).margin(1e-9 * all.seconds));
    CHECK(one.messages == all.messages);
    CHECK(one.calculations == all.calculations);
    REQUIRE(one.lines.size() == all.lines.size());
    for (std::size_t i = 0; i < all.lines.size(); ++i) {
        CHECK(location_of(one.lines[i].origin.transfer) == location_of(all.lines[i].origin.transfer));
        CHECK(one.lines[i].bytes == exactly(all.lines[i].bytes));
        CHECK(one.lines[i].messages == all.lines[i].messages);
        CHECK(one.lines[i].calculations == all.lines[i].calculations);
    }
    REQUIRE(one.levels.size() == all.levels.size());
    for (std::size_t i = 0; i < all.levels.size(); ++i) {
        CHECK(one.levels[i].bytes == exactly(all.levels[i].bytes));
        CHECK(one.levels[i].messages == all.levels[i].messages);
        CHECK(one.levels[i].calculations == all.levels[i].calculations);
    }
    REQUIRE(one.links.size() == all.links.size());
    for (std::size_t i = 0; i < all.links.size(); ++i) {
        CHECK(one.links[i].bytes == exactly(all.links[i].bytes));
        CHECK(one.links[i].busy == exactly(all.links[i].busy));
    }
}

// Returns false if no rank stands for all.
bool is_same(const Question& question) {
    INFO(question.schedule << " " << name_of(question.collective) << " on " << question.topology
                           << ", network '" << question.network << "', " << question.bytes << " bytes");
    std::optional<dsl::ScheduleToPredict> one;
    try {
        one = laid_out(question, WhoseSteps::of_one_rank);
    } catch (const dsl::AsymmetryError&) {
        return false;
    }
    const dsl::ScheduleToPredict all = laid_out(question, WhoseSteps::of_all_ranks);
    REQUIRE(one->symmetry);
    REQUIRE(!all.symmetry);
    CHECK(one->name == all.name);
    for (const bool is_ideal : {true, false})
        check_same(prediction_of(*one, question.bytes, is_ideal),
                   prediction_of(all, question.bytes, is_ideal));
    return true;
}

// Whether the schedules of the library make sense here.
bool runs(const Question& question) {
    return test::error_of([&] { laid_out(question, WhoseSteps::of_all_ranks); }).empty();
}

}  // namespace

TEST_CASE("one rank stands for all of the library's schedules in which all do alike") {
    std::mt19937 random(1);
    const auto drawn = [&](std::vector<std::string> texts) { return texts[random() % texts.size()]; };
    std::map<std::string, int> alike;
    int number = 0;
    for (const test::Case& one : test::cases()) {
        if (std::string(one.schedule).empty()) continue;
        std::vector<std::string> topologies(one.topologies.begin(), one.topologies.end());
        for (const char* further : {"8", "16", "4x4", "2mx4h", "4m/2x2h", "2hx4m", "2x4mx2h", "bcube(4, 2)",
                                    "cloud(4, 4)", "6", "3x4", "8m/2", "2mx3h@1Gb/s"})
            topologies.push_back(further);
        for (const std::string& topology : topologies) {
            if (number++ % test::in_long_form(1, 4) != 0) continue;
            const Question question{one.schedule, topology,
                                    drawn({"", "", "order digits", "latency hop", "latency none", "switch",
                                           "switch/3@1Gb/s", "ring", "mesh", "routing hash(3)"}),
                                    one.collective, std::pow(10, 2 + random() % 7)};
            if (topology == "1" || !runs(question)) continue;
            if (is_same(question)) ++alike[fmt::format("{} {}", one.schedule, name_of(one.collective))];
        }
    }
    for (const char* name :
         {"ring all_reduce", "direct all_reduce", "halving all_reduce", "exchange all_reduce",
          "butterfly all_reduce", "blueconnect all_reduce", "sharded all_reduce", "nested all_reduce",
          "bml all_reduce", "rings all_reduce", "ring reduce_scatter", "doubling all_gather",
          "direct all_to_all", "pairwise all_to_all", "bruck all_to_all", "default all_to_all"}) {
        INFO(name);
        CHECK(alike[name] >= test::in_long_form(5, 1));
    }
    // These have a root, or ranks that do more than others.
    for (const char* name : {"two_level all_reduce", "pipelined_tree(3) all_reduce",
                             "parameter_server(2) all_reduce", "binomial broadcast", "chain(4) broadcast",
                             "scatter broadcast", "direct reduce", "binomial gather"}) {
        INFO(name);
        CHECK(alike[name] == 0);
    }
}

TEST_CASE("one rank stands for all on random topologies and networks") {
    std::mt19937 random(2);
    const auto up_to = [&](unsigned n) { return random() % n; };
    int alike = 0;
    for (int round = 0; round < test::in_long_form(60, 9); ++round) {
        // Levels of 1 to 5 ranks, in memory or not, some with a shared link.
        std::string levels;
        const unsigned count = 1 + up_to(3);
        std::vector<unsigned> sizes;
        for (unsigned i = 0, ranks = 1; i < count; ++i) {
            const unsigned size = 1 + up_to(ranks > 10 ? 3 : 5);
            ranks *= size;
            sizes.push_back(size);
            const bool is_memory = up_to(4) == 0;
            levels +=
                fmt::format("level l{}[{}] {{ medium {} latency {}us bandwidth {}Gb/s {} }}\n", i, size,
                            is_memory ? "memory" : "fabric", up_to(30), 1 + up_to(100),
                            i > 0 && !is_memory && up_to(2) == 0 ? fmt::format("shared by l{}", i - 1) : "");
        }
        const test::TemporarySchedule file("topology t(n = 1) {\n" + levels + "}");
        std::string network = std::vector<std::string>{"", "order digits", "latency hop"}[up_to(3)];
        for (unsigned i = 0; i < count; ++i)
            if (up_to(3) == 0)
                network +=
                    fmt::format("; level l{} {}", i,
                                std::vector<std::string>{"ring", "mesh", "switch/2", "switch"}[up_to(4)]);
        if (up_to(5) == 0) network = fmt::format("torus({})", fmt::join(sizes, ","));
        for (const char* schedule : {"ring", "direct", "rings", "blueconnect", "bml", "nested", "sharded",
                                     "exchange", "halving", "butterfly", "reproducible"}) {
            const Question question{schedule, file.path() + ":t", network, Collective::all_reduce,
                                    std::pow(10, 2 + up_to(7))};
            if (runs(question)) alike += is_same(question);
        }
    }
    CHECK(alike > test::in_long_form(100, 12));
}

TEST_CASE("schedules that compute are the same for all ranks, too") {
    for (const Question& question : {Question{"hitopk(0.1)", "2x3", ""},
                                     {"hitopk(0.1)", "2mx4h", ""},
                                     {"hitopk_lossy(0.1)", "cloud(4, 2)", "order digits"},
                                     {"lamb_everywhere", "2mx4h", ""},
                                     {"lars", "6", ""},
                                     {"lars", "8m/2", ""},
                                     {"naive_ag(0.1)", "5", "mesh"}})
        CHECK(is_same(question));
}

TEST_CASE("on 256 and 4,096 ranks, one rank's steps give the same as all") {
    int number = 0;
    for (const Question& question : {Question{"bml", "bcube(4, 4)", ""},
                                     {"bml", "bcube(16, 2)", ""},
                                     {"ring", "256", ""},
                                     {"direct", "256", ""},
                                     {"blueconnect", "16x16", ""},
                                     {"rings", "4x8x8", "torus(4,8,8)"}})
        if (number++ % test::in_long_form(1, 5) == 0) CHECK(is_same(question));
    // The proof of all 4,096 would take most of the time, and a gigabyte.
    for (const Question& question : {Question{"bml", "bcube(8, 4)", ""},
                                     {"reproducible", "8mx8x64h", ""},
                                     {"rings", "16x16x16", "torus(16,16,16)"}}) {
        if (++number % test::in_long_form(1, 4) != 0) continue;
        INFO(question.schedule << " on " << question.topology);
        const dsl::ScheduleToPredict one = laid_out(question, WhoseSteps::by_size);
        REQUIRE(one.symmetry);
        dsl::Library library({HOCKET_SCHEDULES_DIR});
        const dsl::Runnable runnable = dsl::find_runnable(library, question.schedule, Collective::all_reduce);
        dsl::ScheduleToPredict all{one.name, one.topology, one.network};
        all.graph =
            std::make_shared<const dsl::StepGraph>(dsl::elaborate(runnable, library, one.topology, {}));
        for (const bool is_ideal : {true, false})
            check_same(prediction_of(one, question.bytes, is_ideal),
                       prediction_of(all, question.bytes, is_ideal));
    }
}

TEST_CASE("BML on BCube(16,4) takes 2 (N - 1) / (k N), on one rank's steps") {
    const test::TemporarySchedule file(
        "topology cube(n = 3, k = 2) { for l in 0 ..< k\n"
        "  level port[n] { medium fabric latency 0us bandwidth 10Gb/s } }");
    const dsl::ScheduleToPredict schedule =
        laid_out({"bml", file.path() + ":cube(16, 4)", ""}, WhoseSteps::by_size);
    REQUIRE(schedule.symmetry);
    CHECK(schedule.proved_on == std::vector<std::string>{"cube(16, 4)"});
    const dsl::Prediction prediction = prediction_of(schedule, 1e9, true);
    CHECK(prediction.seconds * 1.25e9 / 1e9 == exactly(2 * 65535.0 / (4 * 65536)));
    CHECK(prediction.messages == 65536ull * 4 * 8 * 15);
}

TEST_CASE("what one rank can't stand for is followed in full, or refused with the reason") {
    const auto error = [](const Question& question) {
        return test::error_of([&] { laid_out(question, WhoseSteps::by_size); });
    };
    // Neighbours of a ring over several levels are not neighbours in each level.
    const std::string ring = error({"ring", "256x256", ""});
    CHECK_THAT(ring, Contains("ring is too large for 65536 ranks: about 8589803520 steps"));
    CHECK_THAT(ring, Contains("ring.sched:6"));
    CHECK_THAT(ring, Contains("take fewer ranks: about 4096"));
    // All hosts of the network, and more than are followed in full.
    const std::string ranks = test::in_long_form("8192", "4394"),
                      network = test::in_long_form("fattree(32)", "fattree(26)");
    CHECK_THAT(error({"direct", ranks, network}), Contains("the tiers of " + network));
    const dsl::ScheduleToPredict tree =
        laid_out({"binomial", "2048", "", Collective::broadcast}, WhoseSteps::by_size);
    CHECK(!tree.symmetry);
    CHECK(tree.graph->steps.size() == 2047);
    CHECK_THAT(tree.why_in_full, Contains("not the same for each of them (") && Contains("binomial.sched:6"));
    // One rank stands for all only where that spares something.
    CHECK(!laid_out({"ring", "8", ""}, WhoseSteps::by_size).symmetry);
}

TEST_CASE("a schedule that is wrong on smaller topologies is followed in full, and refused if it is wrong") {
    const test::TemporarySchedule file(
        "schedule wrong all_reduce(x) { reduce_scatter x over levels[0] using direct }\n");
    CHECK_THAT(test::error_of([&] {
                   laid_out({file.path(), "64x64", ""}, WhoseSteps::by_size);
               }),
               Contains("wrong all_reduce on 64x64: rank 0 ends with chunk 0"));
}

TEST_CASE("a schedule with other compositions on fewer ranks is followed in full") {
    // What is packed has no proof by one rank.
    const test::TemporarySchedule file(
        "schedule more all_reduce(x) approximate lossy {\n"
        "    for i in 0 ..< max(1, 4096 / ranks) { let y = x.part(i of max(1, 4096 / ranks)) "
        "all_reduce y over world as int8 }\n"
        "}\n");
    const auto schedule = laid_out({file.path(), "2048", ""}, WhoseSteps::by_size);
    CHECK_FALSE(schedule.symmetry);
    CHECK_THAT(schedule.why_in_full, Contains("on none of the smaller topologies"));
}

TEST_CASE("no rank stands for all where an end has a rate of its own") {
    for (const char* network : {"end l0 5 1Mb/s", "end l0 0 1Mb/s"}) {
        const auto schedule = test::is_long_form()
                                  ? laid_out({"direct", "1100", network}, WhoseSteps::by_size)
                                  : laid_out({"halving", "2048", network}, WhoseSteps::by_size);
        CHECK_FALSE(schedule.symmetry);
        CHECK_THAT(schedule.why_in_full, Contains("rates of their own"));
    }
}

TEST_CASE("a root that is no rank is refused on many ranks, too") {
    dsl::PlanRequest request = test::request(Collective::all_reduce, "ring", "2048");
    request.root = 5000;
    CHECK_THAT(
        test::error_of([&] {
            dsl::Planner().to_predict(
                request,
                [](const dsl::Topology& topology) { return std::make_shared<const dsl::Network>(topology); },
                WhoseSteps::by_size);
        }),
        Contains("there is no root 5000"));
}

TEST_CASE("smaller topologies keep their levels, and powers of two") {
    const auto smaller = [](const std::string& text, Rank most) {
        return dsl::smaller(dsl::grid_topology(text), most).name;
    };
    CHECK(smaller("16x16x16x16", 256) == "4x4x4x4");
    CHECK(smaller("65536", 256) == "256");
    CHECK(smaller("10x10x10x10", 256) == "3x3x5x5");
    CHECK(smaller("1x2x3", 2) == "1x2x2");
    CHECK(smaller("2x3", 64) == "2x3");
}
