#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "dsl/planning/estimate.hpp"
#include "dsl/prediction/predict.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/dsl/prediction.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Collective;
using test::exactly;
using test::us;

namespace {

constexpr double rate = 1.25e9, bytes = 1e9;

// A topology like bcube, without latency.
const test::TemporarySchedule& files() {
    static const test::TemporarySchedule file(
        "topology cube(n = 3, k = 2) { for l in 0 ..< k\n"
        "  level port[n] { medium fabric latency 0us bandwidth 10Gb/s } }\n"
        "topology flat(n = 4) { level l[n] { medium fabric latency 0us bandwidth 10Gb/s } }\n"
        "topology three(a = 4, b = 16, c = 3) {\n"
        "  level a[a] { medium fabric latency 0us bandwidth 10Gb/s }\n"
        "  level b[b] { medium fabric latency 0us bandwidth 10Gb/s }\n"
        "  level c[c] { medium fabric latency 0us bandwidth 10Gb/s } }\n"
        "topology minsky(nodes = 16, racks = 3) {\n"
        "  level gpu[4] { medium device latency 300us bandwidth 32GB/s }\n"
        "  level node[nodes] { medium fabric latency 300us bandwidth 12.5GB/s shared by gpu }\n"
        "  level rack[racks] { medium fabric latency 300us bandwidth 200GB/s shared by node } }\n"
        "topology hosts(nodes = 16) {\n"
        "  level gpu[4] { medium device latency 300us bandwidth 32GB/s }\n"
        "  level node[nodes] { medium fabric latency 300us bandwidth 12.5GB/s shared by gpu } }\n"
        "schedule nothing all_reduce(x) { all_reduce x over world using exchange }\n");
    return file;
}
std::string own(const std::string& name) {
    return files().path() + ":" + name;
}

dsl::Prediction predicted(const std::string& schedule, const std::string& topology,
                          const std::string& network = "", dsl::PredictOptions options = {.ideal = true},
                          double size = bytes, Collective collective = Collective::all_reduce) {
    dsl::PlanRequest request = test::request(collective, schedule, topology);
    request.bytes = static_cast<std::uint64_t>(size);
    request.follow = dsl::Proofs::Follow::all_ranks;
    const auto checked = dsl::check_schedule(request);
    const dsl::Network links = dsl::find_network(network, checked->levels());
    options.certifies = true;
    const dsl::Prediction prediction = dsl::Predictor(checked->graph(), links, options).predict(size);
    double lines = 0, levels = 0, messages = 0, calculations = 0;
    for (const dsl::LineShare& line : prediction.lines) {
        lines += line.seconds;
        messages += double(line.messages);
        calculations += double(line.calculations);
    }
    for (const dsl::LevelShare& level : prediction.levels) levels += level.seconds;
    CHECK(lines == Approx(prediction.seconds).epsilon(1e-9));
    CHECK(levels == Approx(prediction.seconds).epsilon(1e-9));
    CHECK(messages == double(prediction.messages));
    CHECK(calculations == double(prediction.calculations));
    for (const dsl::LinkUse& use : prediction.links) CHECK(use.busy <= 1 + 1e-9);
    return prediction;
}

// In units of the time in which one link carries all of x.
double units(const std::string& schedule, const std::string& topology, const std::string& network = "") {
    return predicted(schedule, topology, network).seconds * rate / bytes;
}

}  // namespace

TEST_CASE("BML on BCube takes 2 (N - 1) / (k N)") {
    for (const auto& [n, k] : {std::pair(3, 2), {4, 2}, {8, 3}, {32, 2}, {2, 5}}) {
        const double ranks = std::pow(n, k);
        INFO(n << ", " << k);
        CHECK(units("bml", own(fmt::format("cube({}, {})", n, k))) == exactly(2 * (ranks - 1) / (k * ranks)));
    }
    // 16 steps, of which 6, 2, 2 and 6 take each strand's messages (Wang et al., section 4).
    const dsl::Prediction prediction = predicted("bml", own("cube"));
    REQUIRE(prediction.lines.size() == 2);
    CHECK(prediction.lines[0].seconds == exactly(prediction.seconds / 2));
    CHECK(prediction.messages == 9 * 2 * 4 * 2);
    for (const dsl::LinkUse& use : prediction.links) CHECK(use.busy == exactly(1));
}

TEST_CASE("a parameter server on every rank takes 2 (n - 1) / n on BCube, in one order of digits") {
    for (const auto& [n, k] : {std::pair(3, 2), {4, 2}, {3, 3}, {2, 5}})
        CHECK(units("direct", own(fmt::format("cube({}, {})", n, k)), "order digits") ==
              exactly(2 * (n - 1.0) / n));
}

TEST_CASE(
    "on a fat-tree a parameter server, a ring and a hierarchy take 2 (N - 1) / N if messages are spread") {
    const std::string tree = "fattree(4)@10Gb/s,0us";
    CHECK(units("direct", "16", tree) == exactly(1.875));
    CHECK(units("ring", "16", tree) == exactly(1.875));
    CHECK(units("blueconnect", "2x2x4", tree) == exactly(1.875));
    CHECK(units("direct", "128", "fattree(16)@10Gb/s,0us") == exactly(2 * 127.0 / 128));
    CHECK(units("blueconnect", "8x8x16", "fattree(16)@10Gb/s,0us") == exactly(2 * 1023.0 / 1024));
    // One path for each pair of ranks is worse, and as bad as the anchors say.
    for (int seed = 1; seed <= 5; ++seed) {
        const double drawn = units("direct", "16", fmt::format("{}; routing hash({})", tree, seed));
        CHECK(drawn >= 2);
        CHECK(drawn <= 3.2);
    }
}

TEST_CASE("a fat-tree is the same link by link") {
    std::string graph;
    const auto link = [&](const std::string& a, const std::string& b) {
        graph += "link " + a + " " + b + " 10Gb/s\n";
    };
    for (int pod = 0; pod < 4; ++pod)
        for (int i = 0; i < 2; ++i) {
            for (int host = 0; host < 2; ++host)
                link(fmt::format("{}", pod * 4 + i * 2 + host), fmt::format("edge{}.{}", pod, i));
            for (int j = 0; j < 2; ++j) {
                link(fmt::format("edge{}.{}", pod, i), fmt::format("agg{}.{}", pod, j));
                link(fmt::format("agg{}.{}", pod, i), fmt::format("core{}", 2 * i + j));
            }
        }
    const auto checked = dsl::check_schedule(test::request(Collective::all_reduce, "direct", "16"));
    CHECK(dsl::find_network(graph, checked->levels()).switches() == 20);
    for (const char* schedule : {"direct", "ring", "halving", "flat(direct, doubling)"})
        CHECK(units(schedule, "16", graph) == exactly(units(schedule, "16", "fattree(4)@10Gb/s,0us")));
    // The tree is too thin for what crosses pods.
    CHECK(units("direct", "16", "fattree(4)/4@10Gb/s,0us") > 4);
}

TEST_CASE("BlueConnect's levels carry what its paper says, in all six orders") {
    for (const char* sizes : {"4, 16, 3", "4, 3, 16", "16, 4, 3", "16, 3, 4", "3, 4, 16", "3, 16, 4"})
        CHECK(units("rings", own(fmt::format("three({})", sizes))) == exactly(2 * 191.0 / 192));
    const dsl::Prediction prediction = predicted("rings", own("three"));
    const double volumes[] = {1.5, 0.46875, 2 * 2.0 / 3 / 64};
    for (std::size_t i = 0; i < 3; ++i) {
        CHECK(prediction.levels[i].seconds * rate / bytes == exactly(volumes[i]));
        CHECK(prediction.levels[i].bytes == exactly(192 * volumes[i] * bytes));
    }
}

TEST_CASE("on Minsky, BlueConnect and a ring take what equations 9 and 6 say") {
    const double alpha = 300 * us, size = 100e6;
    for (const auto& [nodes, racks, ring, levels] :
         {std::tuple(4, 1, 24.0, 20.3), {16, 1, 53.5, 30.5}, {16, 2, 92.1, 31.6}, {16, 3, 130.5, 32.4}}) {
        const double ranks = 4 * nodes * racks;
        const std::string topology = own(fmt::format("minsky({}, {})", nodes, racks));
        const double flat = predicted("ring", topology, "", {.ideal = true}, size).seconds;
        CHECK(flat == exactly(2 * (ranks - 1) * (alpha + size / ranks / 12.5e9)));
        CHECK(flat == Approx(ring * 1e-3).epsilon(0.003));
        const double shared = 12.5e9 / 4;  // of the NIC, by 4 GPUs
        const dsl::Prediction blue = predicted("rings", topology, "", {.ideal = true}, size);
        CHECK(blue.seconds == exactly(2 * (3 + (nodes - 1) + (racks - 1)) * alpha + 1.5 * size / 32e9 +
                                      2 * (nodes - 1.0) / nodes / 4 * size / shared +
                                      2 * (racks - 1.0) / racks / (4 * nodes) * size / shared));
        CHECK(blue.latency == exactly(2 * (3 + (nodes - 1) + (racks - 1)) * alpha));
        CHECK(blue.seconds == Approx(levels * 1e-3).epsilon(0.003));
    }
}

TEST_CASE("on Minsky, collectives of two levels take what equation 7 says") {
    const double alpha = 300 * us, size = 100e6, host = 2 * (5 * alpha + 1.5 * size / 32e9);
    for (const auto& [nodes, paper] : {std::pair(4, 25.6), {16, 29.8}, {32, 30.9}, {48, 56.2}}) {
        const bool halves = nodes != 48;  // no power of two: a ring
        const double seconds = predicted(halves ? "two_level(halving, doubling)" : "two_level",
                                         own(fmt::format("hosts({})", nodes)), "", {.ideal = true}, size)
                                   .seconds;
        const double steps = halves ? std::log2(nodes) : nodes - 1;
        CHECK(seconds == exactly(host + 2 * (steps * alpha + (nodes - 1.0) / nodes * size / 12.5e9)));
        CHECK(seconds == Approx(paper * 1e-3).epsilon(0.002));
    }
}

TEST_CASE("servers' links carry their parts of all ranks' gradients, and no more") {
    for (const auto& [ranks, servers] : {std::pair(4, 1), {8, 2}, {9, 3}, {8, 8}})
        CHECK(units(fmt::format("parameter_server({})", servers), own(fmt::format("flat({})", ranks))) ==
              exactly(2 * (ranks - 1.0) / servers));
}

TEST_CASE("pipelined trees come close to carrying all data twice, each link in each direction") {
    for (const int ranks : {16, 32}) {
        const dsl::Prediction prediction =
            predicted("pipelined_tree(64)", own(fmt::format("flat({})", ranks)));
        CHECK(prediction.seconds * rate / bytes < 2.2);
        for (const dsl::LinkUse& use : prediction.links) CHECK(use.bytes <= 2 * bytes * (1 + 1e-9));
    }
}

TEST_CASE("CommLib's four schedules come in its order") {
    // 25 million float16. A selected one is 6 bytes with its index.
    std::vector<double> ms;
    for (const char* schedule : {"naive_ag(0.01)", "pipelined_tree(32)", "torus", "hitopk(0.01)"})
        ms.push_back(predicted(schedule, "cloud", "", {.ideal = true, .value_bytes = 2}, 50e6).seconds * 1e3);
    CHECK(ms[0] == Approx(64.8).epsilon(0.002));
    CHECK(ms[1] > 32.3);  // which leaves out what it takes to fill the pipeline
    CHECK(ms[1] < 40);
    CHECK(ms[2] == Approx(31.6).epsilon(0.002));
    CHECK(ms[3] == Approx(8.4).epsilon(0.005));
}

TEST_CASE("ideal messages cost a latency, and their bytes") {
    CHECK(predicted("exchange", "4").seconds == exactly(20 * us + 3 * bytes / rate));
    CHECK(predicted("ring", "4").seconds == exactly(6 * (20 * us + bytes / 4 / rate)));
    CHECK(predicted("ring", "4").latency == exactly(6 * 20 * us));
    // 16 tiles leave one after the other, each after its latency, and the last passes two links.
    CHECK(predicted("chain(16)", "3", "", {.ideal = true}, bytes, Collective::broadcast).seconds ==
          exactly(17 * (bytes / 16 / rate + 20 * us)));
    CHECK(predicted("ring", "4", "latency none").seconds == exactly(6 * bytes / 4 / rate));
    CHECK(predicted("ring", "2mx2h", "latency none", {}).latency == 0);
    // By hop: up to six links.
    CHECK(predicted("exchange", "16", "fattree(4)@10Gb/s,1us; latency hop", {.ideal = true}, 1).latency ==
          exactly(6 * us));
}

TEST_CASE("where an estimate and a calibrated prediction model the same, they are the same") {
    // Loads are equal here, and no rank has several strands. A prediction of strands lets each go its own
    // way.
    int number = 0;
    for (const char* schedule :
         {"ring", "direct", "exchange", "butterfly", "halving", "blueconnect", "nested"})
        for (const char* topology :
             {"4h", "4m", "4m/2", "2mx4h", "4mx2h@1Gb/s", "2x4", "2hx2m", "8h@1Gb/s", "4mx4h", "2mx2m"})
            for (const double size : {4096.0, double(1 << 20), 1e9}) {
                if (number++ % test::in_long_form(1, 4) != 0) continue;
                dsl::PlanRequest request = test::request(Collective::all_reduce, schedule, topology);
                request.bytes = static_cast<std::uint64_t>(size);
                request.follow = dsl::Proofs::Follow::all_ranks;
                const auto checked = dsl::check_schedule(request);
                INFO(schedule << " on " << topology << " at " << size);
                CHECK(predicted(schedule, topology, "", {}, size).seconds ==
                      exactly(dsl::estimate(checked->graph(), checked->levels(), size)));
            }
    for (const char* schedule : {"binomial", "chain(16)", "direct"}) {
        const auto checked = dsl::check_schedule(test::request(Collective::broadcast, schedule, "4h"));
        CHECK(predicted(schedule, "4h", "", {}, bytes, Collective::broadcast).seconds ==
              exactly(dsl::estimate(checked->graph(), checked->levels(), bytes)));
    }
    // A root that gets many messages is as busy with them as one that sends them.
    for (const Collective collective : {Collective::gather, Collective::reduce}) {
        const auto checked = dsl::check_schedule(test::request(collective, "direct", "9h"));
        CHECK(predicted("direct", "9h", "", {}, 72, collective).seconds ==
              exactly(dsl::estimate(checked->graph(), checked->levels(), 72)));
    }
    // Only the root's link is crowded.
    const auto gathered = dsl::check_schedule(test::request(Collective::gather, "direct", "4h"));
    CHECK(predicted("direct", "4h", "", {}, bytes, Collective::gather).seconds ==
          exactly(dsl::estimate(gathered->graph(), gathered->levels(), bytes)));
    const auto moves = dsl::check_schedule(test::request(Collective::all_to_all, "bruck", "4m"));
    CHECK(predicted("bruck", "4m", "", {}, bytes, Collective::all_to_all).seconds ==
          exactly(dsl::estimate(moves->graph(), moves->levels(), bytes)));
    const auto strands = dsl::check_schedule(test::request(Collective::all_reduce, "bml", "bcube(4, 2)"));
    CHECK(predicted("bml", "bcube(4, 2)", "", {}, bytes).seconds ==
          Approx(dsl::estimate(strands->graph(), strands->levels(), bytes)).epsilon(0.01));
}

TEST_CASE("an estimate lets each strand of a rank go its own way, as a prediction does") {
    // Each rank is inside one tree and a leaf of the other, which its messages reach later.
    int number = 0;
    for (const Collective collective : {Collective::broadcast, Collective::reduce})
        for (const char* schedule : {"double_tree(1)", "double_tree(8)", "double_tree(64)"})
            for (const char* topology : {"5h", "16h", "33h", "64h", "4mx8h@1Gb/s"})
                for (const double size : {double(64 << 10), double(4 << 20), 1e9}) {
                    if (number++ % test::in_long_form(1, 4) != 0) continue;
                    const auto checked = dsl::check_schedule(test::request(collective, schedule, topology));
                    const double estimated = dsl::estimate(checked->graph(), checked->levels(), size);
                    const double seconds = predicted(schedule, topology, "", {}, size, collective).seconds;
                    INFO(schedule << " on " << topology << " at " << size);
                    CHECK(estimated > 0.75 * seconds);
                    CHECK(estimated < 1.35 * seconds);
                }
}

TEST_CASE("no end carries more at once than it can, however strands overlap") {
    // Strands have 1, 8 and 64 rounds, so the last message of each is in a round of its own.
    const test::TemporarySchedule file(
        "algorithm staggered reduce(x, root) over g {\n"
        "    parallel t in 0 ..< 3 {\n"
        "        let y = x.part(t of 3)\n"
        "        for i in 0 ..< 8**t {\n"
        "            let z = y.part(i of 8**t)\n"
        "            each q in 2 ..< g.size z : q +> 1 }\n"
        "        y : 1 +> root } }\n"
        "schedule staggered reduce(x, root) { reduce x over world to root using staggered }");
    const auto checked = dsl::check_schedule(test::request(Collective::reduce, file.path(), "4h"));
    const dsl::Estimate estimate(checked->graph(), checked->levels());
    CHECK(estimate.seconds(1e9) >= estimate.busiest_link() * 1e9 / rate);
    // Rank 1 combines two others' x, in memory too, where it touches at least twice each byte that it gets.
    const auto local = dsl::check_schedule(test::request(Collective::reduce, file.path(), "4m/4"));
    const double memory = local->levels().levels[0].bandwidth;
    CHECK(dsl::estimate(local->graph(), local->levels(), 1e9) >= 4e9 / memory);
}

TEST_CASE("a rank works for the messages of its strands one after the other") {
    const test::TemporarySchedule file(
        "schedule s all_reduce(x) {\n"
        "  parallel t in 0 ..< 2 { let y = x.part(t of 2) all_reduce y over world using exchange } }");
    // The second leaves after two fifths of a latency, when the first has long been sent.
    CHECK(predicted(file.path(), "2h", "", {}, 2).seconds == exactly(1.2 * 30 * us + 1 / rate));
    CHECK(predicted(file.path(), "2h", "", {.ideal = true}, 2).seconds == exactly(30 * us + 2 / rate));
}

TEST_CASE("a phase waits for the rank's strands before it, and strands for what was before them") {
    const test::TemporarySchedule file(
        "schedule s all_reduce(x) {\n"
        "  all_reduce x over world using exchange\n"
        "  parallel t in 0 ..< 2 { let y = x.part(t of 2)\n"
        "    parallel u in 0 ..< 2 { let z = y.part(u of 2) all_reduce z over world using exchange }\n"
        "    all_reduce y over world using exchange }\n"
        "  all_reduce x over world using exchange\n"
        "}");
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    const dsl::Runnable s = dsl::find_runnable(library, file.path(), Collective::all_reduce);
    const dsl::Topology topology = dsl::grid_topology("2h");
    // Not a right all-reduce, but as good for this: all, quarters, halves, and all.
    const dsl::StepGraph graph = dsl::elaborate(s, library, topology, {0, std::nullopt, {}});
    const dsl::Network network(topology);
    const dsl::Predictor ideal(graph, network, {.ideal = true, .timeline = true, .certifies = true});
    const dsl::Prediction prediction = ideal.predict(bytes);
    CHECK(prediction.seconds == exactly(4 * (30 * us + bytes / rate)));
    REQUIRE(prediction.timeline.size() == 16);
    std::array<int, 4> begun{};  // by the messages before, one after the other
    for (const dsl::MessageTimes& message : prediction.timeline) {
        CHECK(message.arrived - message.begin == exactly(bytes / rate));
        CHECK(message.sent == message.arrived);
        const double place = (message.begin - 30 * us) / (30 * us + bytes / rate);
        CHECK(place == Approx(std::round(place)).margin(1e-9));
        ++begun.at(static_cast<std::size_t>(std::round(place)));
    }
    CHECK(begun == std::array{2, 8, 4, 2});
}

TEST_CASE("packing and sums in a rank's own memory are no messages") {
    const dsl::Prediction ring = predicted("ring", "4m", "", {});
    CHECK(ring.messages == 2 * 4 * 3);
    CHECK(ring.calculations == 0);
    // Each rank fetches what others have packed for it, once on each way.
    const dsl::Prediction quantised = predicted("quantised", "4m", "", {});
    CHECK(quantised.messages == 2 * 4);
    CHECK(quantised.calculations > 0);
    CHECK(quantised.levels[0].bytes < ring.levels[0].bytes / 3);
    // The piece that a rank has for itself is no message's, though direct copies it in the same phase.
    for (const char* schedule : {"direct", "pairwise"})
        for (const char* topology : {"4m", "4"}) {
            INFO(schedule << " on " << topology);
            const dsl::Prediction exchanged =
                predicted(schedule, topology, "", {}, bytes, Collective::all_to_all);
            CHECK(exchanged.levels[0].bytes == Approx(3 * bytes));
        }
}

TEST_CASE("a prediction is the same each time, and says what crosses each link") {
    const auto checked = dsl::check_schedule(test::request(Collective::all_reduce, "direct", "2x4"));
    const dsl::Network network =
        dsl::find_network("level l1 torus(2,2)@1GB/s,3us; routing hash(4); latency hop", checked->levels());
    const dsl::PredictOptions options{.timeline = true, .certifies = true};
    const dsl::Predictor predictor(checked->graph(), network, options);
    const dsl::Prediction one = predictor.predict(12345678), two = predictor.predict(12345678),
                          three = dsl::Predictor(checked->graph(), network, options).predict(12345678);
    REQUIRE(one.timeline.size() == 112);
    for (const dsl::Prediction* other : {&two, &three}) {
        CHECK(one.seconds == other->seconds);
        for (std::size_t i = 0; i < one.timeline.size(); ++i) {
            CHECK(one.timeline[i].begin == other->timeline[i].begin);
            CHECK(one.timeline[i].arrived == other->timeline[i].arrived);
        }
    }
    std::vector<double> crossing(network.links().size());
    for (const dsl::MessageTimes& message : one.timeline)
        for (const dsl::Hop& hop : network.route(message.source, message.destination).hops)
            crossing[hop.link] += message.bytes;
    for (std::size_t i = 0; i < crossing.size(); ++i) CHECK(one.links[i].bytes == Approx(crossing[i]));
    // The more, the longer.
    CHECK(predictor.predict(12345679).seconds > one.seconds);
}

TEST_CASE("nonsense is not predicted") {
    const auto checked = dsl::check_schedule(test::request(Collective::all_reduce, "ring", "4"));
    const dsl::Network network(checked->levels()), other(dsl::grid_topology("2x4"));
    const dsl::Predictor predictor(checked->graph(), network);
    for (const double size : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity(), 1e30})
        CHECK_THAT(test::error_of([&] { predictor.predict(size); }), Catch::Contains("can't be predicted"));
    CHECK_THAT(test::error_of([&] { dsl::Predictor(checked->graph(), other); }),
               Catch::Contains("a network of 8 ranks for a schedule of 4"));
    const dsl::Network slow = dsl::find_network("ring@1e-300B/s,0us", checked->levels());
    CHECK_THAT(test::error_of([&] { dsl::Predictor(checked->graph(), slow).predict(1e18); }),
               Catch::Contains("longer than can be said"));
    const dsl::Network late = dsl::find_network("ring@1GB/s,1e308s", checked->levels());
    CHECK_THAT(test::error_of([&] { dsl::Predictor(checked->graph(), late).predict(1e18); }),
               Catch::Contains("longer than can be said"));
    const auto large = dsl::check_schedule(test::request(Collective::all_reduce, "ring", "64"));
    const dsl::Network hosts(large->levels());
    const dsl::PredictOptions hurried{.deadline = dsl::Deadline(std::chrono::duration<double>(0))};
    CHECK_THROWS_AS(dsl::Predictor(large->graph(), hosts, hurried), dsl::DeadlineError);
}
