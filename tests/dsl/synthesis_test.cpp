// Bounds, trees, rounds and exchanges of synthesis, on networks that are drawn at random and on known ones.
#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <random>

#include "dsl/planning/compile.hpp"
#include "dsl/synthesis/bound.hpp"
#include "dsl/synthesis/exchange.hpp"
#include "dsl/synthesis/growing.hpp"
#include "dsl/synthesis/max_flow.hpp"
#include "dsl/synthesis/packing.hpp"
#include "dsl/synthesis/rounds.hpp"
#include "dsl/synthesis/synthesize.hpp"
#include "dsl/synthesis/turns.hpp"
#include "dsl/synthesis/writing.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::dsl;

namespace {

int drawn(std::mt19937& random, int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
}

// A network of links between ranks, and of switches that ranks hang on, which have one way to each other.
std::string random_network(std::mt19937& random, Rank ranks) {
    std::string text;
    const auto link = [&](const std::string& a, const std::string& b) {
        text += fmt::format("link {} {} {}GB/s 1us;", a, b, drawn(random, 1, 4));
    };
    if (drawn(random, 0, 1) == 0) {
        for (Rank rank = 1; rank < ranks; ++rank)
            link(std::to_string(rank), std::to_string(drawn(random, 0, rank - 1)));
        for (Rank a = 0; a < ranks; ++a)
            for (Rank b = a + 2; b < ranks; ++b)
                if (drawn(random, 0, 2) == 0 &&
                    text.find(fmt::format("link {} {} ", b, a)) == std::string::npos)
                    link(std::to_string(a), std::to_string(b));
        return text;
    }
    const int switches = drawn(random, 1, 3);
    for (int one = 1; one < switches; ++one)
        link(fmt::format("s{}", one), fmt::format("s{}", drawn(random, 0, one - 1)));
    for (Rank rank = 0; rank < ranks; ++rank) link(std::to_string(rank), fmt::format("s{}", rank % switches));
    return text;
}

// Each rank hangs on both of two switches, the last one by links of another rate.
std::string two_switches(Rank ranks, double last) {
    std::string text;
    for (Rank rank = 0; rank < ranks; ++rank)
        for (const char* one : {"a", "b"})
            text += fmt::format("link {} {} {}GB/s 1us;", rank, one, rank + 1 < ranks ? 1 : last);
    return text;
}

SynthesisRequest to_synthesize(Collective collective, const std::string& network, Rank ranks) {
    SynthesisRequest request;
    request.collective = collective;
    request.network = network;
    request.ranks = ranks;
    request.bytes = 64 << 20;
    request.name = "s";
    return request;
}

std::vector<Rank> all_ranks(Rank ranks) {
    std::vector<Rank> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

// The bound, from each cut.
double rate_by_trying(const LinkGraph& graph, const std::vector<Rank>& roots) {
    double least = 1e300;
    for (std::uint32_t inside = 1; inside < std::uint32_t{1} << graph.vertices; ++inside) {
        const auto has = [&](Vertex vertex) { return (inside >> vertex & 1) != 0; };
        double leaving = 0, count = 0, outside = 0;
        for (const LinkGraph::Edge& edge : graph.edges)
            if (has(edge.from) && !has(edge.to)) leaving += static_cast<double>(edge.rate);
        for (const Rank root : roots) count += has(static_cast<Vertex>(root));
        for (Vertex rank = 0; rank < graph.ranks; ++rank) outside += !has(rank);
        if (count > 0 && outside > 0) least = std::min(least, leaving / count);
    }
    return least;
}

// Proves the text on so many ranks, for each root if the collective has one.
void prove(const std::string& text, Collective collective, Rank ranks) {
    Library library({});
    library.add("<synthesized>", text);
    Planner planner({}, library);
    const bool has_root = collective == Collective::broadcast || collective == Collective::reduce;
    for (Rank root = 0; root < (has_root ? ranks : 1); ++root) {
        PlanRequest request;
        request.collective = collective;
        request.schedule = "s";
        request.ranks = ranks;
        request.root = root;
        INFO(text);
        REQUIRE_NOTHROW(planner.check(request));
    }
}

Forest trees_at_bound(const Ways& ways, const std::vector<Rank>& roots) {
    const LinkGraph graph = link_graph(ways);
    const Bound bound = find_bound(graph, roots, no_deadline);
    CHECK(bound.rate.value() == Approx(rate_by_trying(graph, roots)));
    const Forest forest = pack_trees(graph, ways, roots, bound, no_deadline);
    CHECK(seconds_per_byte(forest, ways) == Approx(1 / (bound.rate.value() * graph.unit)).epsilon(1e-9));
    return forest;
}

}  // namespace

TEST_CASE("the largest flow equals the smallest cut on random graphs") {
    std::mt19937 random(1);
    for (int round = 0; round < 200; ++round) {
        const Vertex vertices = static_cast<Vertex>(drawn(random, 2, 7));
        MaxFlow flow(vertices);
        std::vector<std::tuple<Vertex, Vertex, int>> edges;
        for (Vertex a = 0; a < vertices; ++a)
            for (Vertex b = 0; b < vertices; ++b)
                if (a != b && drawn(random, 0, 1) == 0) edges.emplace_back(a, b, drawn(random, 0, 9));
        for (const auto& [a, b, capacity] : edges) flow.add(a, b, capacity);
        std::int64_t least = MaxFlow::no_limit;
        for (std::uint32_t inside = 0; inside < std::uint32_t{1} << vertices; ++inside) {
            if ((inside & 1) == 0 || (inside >> 1 & 1) != 0) continue;
            std::int64_t cut = 0;
            for (const auto& [a, b, capacity] : edges)
                if ((inside >> a & 1) != 0 && (inside >> b & 1) == 0) cut += capacity;
            least = std::min(least, cut);
        }
        CHECK(flow.run(0, 1) == least);
        CHECK(flow.run(0, 1, 3) == std::min<std::int64_t>(least, 3));
        CHECK(flow.run(0, 1) == least);
    }
}

TEST_CASE("trees on random networks need no more time than the bound, and are proved") {
    std::mt19937 random(2);
    for (int round = 0; round < 60; ++round) {
        const Rank ranks = drawn(random, 2, 6);
        const std::string text = random_network(random, ranks);
        INFO(text);
        const Network network = find_network(text, flat_topology(ranks));
        const int tiles = drawn(random, 1, 3);
        const Ways spreads(network, Flow::spreads, no_deadline),
            combines(network, Flow::combines, no_deadline);
        const Forest spread = trees_at_bound(spreads, all_ranks(ranks)),
                     combine = trees_at_bound(combines, all_ranks(ranks));
        prove(all_gather_text("s", spread, ranks, tiles), Collective::all_gather, ranks);
        prove(reduce_scatter_text("s", combine, ranks, tiles), Collective::reduce_scatter, ranks);
        prove(all_reduce_text("s", spread, combine, ranks, tiles), Collective::all_reduce, ranks);
        std::vector<Forest> from, to;
        for (Rank root = 0; root < ranks; ++root) {
            from.push_back(trees_at_bound(spreads, {root}));
            to.push_back(trees_at_bound(combines, {root}));
        }
        prove(broadcast_text("s", from, ranks, tiles), Collective::broadcast, ranks);
        prove(reduce_text("s", to, ranks, tiles), Collective::reduce, ranks);
    }
}

TEST_CASE("rounds on random networks bring each rank each piece once") {
    std::mt19937 random(3);
    for (int round = 0; round < 60; ++round) {
        const Rank ranks = drawn(random, 2, 8);
        const std::string text = random_network(random, ranks);
        INFO(text);
        const Network network = find_network(text, flat_topology(ranks));
        const Flow flow = drawn(random, 0, 1) == 0 ? Flow::spreads : Flow::combines;
        const Ways ways(network, flow, no_deadline);
        const std::vector<Turn> turns = find_turns(ways, no_deadline);
        RoundLimits limits{.messages = drawn(random, 1, 3), .pieces = drawn(random, 1, 4)};
        limits.parts = drawn(random, 1, 3);
        if (drawn(random, 0, 1) == 0) limits.seconds = 1e-9 * drawn(random, 1, 4);
        const Forest forest =
            spread_in_rounds(ways, turns, representatives(turns, ranks), limits, no_deadline);
        std::int64_t arcs = 0;
        for (const Tree& tree : forest.trees) arcs += static_cast<std::int64_t>(tree.arcs.size());
        CHECK(arcs * images(turns) == std::int64_t{ranks} * (ranks - 1) * limits.parts);
        if (flow == Flow::spreads)
            prove(all_gather_text("s", forest, ranks, 1), Collective::all_gather, ranks);
        else
            prove(reduce_scatter_text("s", forest, ranks, 1), Collective::reduce_scatter, ranks);
    }
}

TEST_CASE("exchanges on random networks are proved, in any number of phases") {
    std::mt19937 random(4);
    for (int round = 0; round < 60; ++round) {
        const Rank ranks = drawn(random, 2, 8);
        const Network network = find_network(random_network(random, ranks), flat_topology(ranks));
        const Ways ways(network, Flow::spreads, no_deadline);
        const DistanceLoads loads(ways, find_turns(ways, no_deadline), no_deadline);
        const auto phases = static_cast<std::size_t>(drawn(random, 1, ranks - 1));
        prove(all_to_all_text("s", loads.in_phases(phases, no_deadline), ranks), Collective::all_to_all,
              ranks);
    }
}

TEST_CASE("the turns of a network are found, and no others") {
    const auto turns = [](const std::string& network, const std::string& topology) {
        const Network found = find_network(network, grid_topology(topology));
        std::string text;
        for (const Turn& turn : find_turns(Ways(found, Flow::spreads, no_deadline), no_deadline))
            text += fmt::format("{}x{} ", turn.stride, turn.size);
        return text;
    };
    CHECK(turns("ring@1GB/s", "6") == "1x6 ");
    CHECK(turns("torus(4,3)@1GB/s", "12") == "1x4 4x3 ");
    CHECK(turns("", "2x2") == "1x2 2x2 ");  // all rates are the same, but the levels are not
    CHECK(turns("", "8x2") == "1x8 8x2 ");
    CHECK(turns("link 0 1 1GB/s; link 1 2 1GB/s; link 2 0 2GB/s", "3") == "");
    CHECK(turns("link 0 s 1GB/s; link 1 s 1GB/s; link 2 s 1GB/s; link 3 s 1GB/s", "4") == "1x4 ");
    CHECK(turns("link 0 1 1GB/s; link 2 3 1GB/s; link 0 s 1GB/s; link 2 s 1GB/s", "4") == "2x2 ");
    CHECK(turns("end l0 1 1GB/s", "2x2") == "");
    // Messages take both switches at once.
    CHECK(turns(two_switches(4, 1), "4") == "1x4 ");
    CHECK(turns(two_switches(4, 0.01), "4") == "");
}

TEST_CASE("trees of which turns make all others are at the bound, and are proved") {
    const auto check = [](const std::string& network_text, const std::string& topology) {
        INFO(network_text << " on " << topology);
        const Topology levels = grid_topology(topology);
        const Network network = find_network(network_text, levels);
        for (const Flow flow : {Flow::spreads, Flow::combines}) {
            const Ways ways(network, flow, no_deadline);
            const LinkGraph graph = link_graph(ways);
            const std::vector<Turn> turns = find_turns(ways, no_deadline);
            const Bound bound = find_bound(graph, all_ranks(levels.ranks()), no_deadline);
            const double seconds = 1 / (bound.rate.value() * graph.unit);
            const auto forest = grow_trees(ways, turns, representatives(turns, levels.ranks()),
                                           bound.rate.num(), seconds, false, no_deadline);
            REQUIRE(forest);
            CHECK(seconds_per_byte(*forest, ways) == Approx(seconds).epsilon(1e-9));
            if (flow == Flow::spreads)
                prove(all_gather_text("s", *forest, levels.ranks(), 2), Collective::all_gather,
                      levels.ranks());
            else
                prove(reduce_scatter_text("s", *forest, levels.ranks(), 2), Collective::reduce_scatter,
                      levels.ranks());
        }
    };
    check("ring@1GB/s", "7");
    check("torus(4,4)@1GB/s", "16");
    check("torus(3,5)@1GB/s", "15");
    check("level l0 switch@12GB/s; level l1 switch@1GB/s", "4x2");  // like boxes of devices
    check("mesh@1GB/s", "5");
    check("", "2x3");
}

TEST_CASE("the bound of known networks") {
    const auto rate = [](const std::string& network_text, const std::string& topology) {
        const Network network = find_network(network_text, grid_topology(topology));
        const LinkGraph graph = link_graph(Ways(network, Flow::spreads, no_deadline));
        return find_bound(graph, all_ranks(network.ranks()), no_deadline).rate.value() * graph.unit;
    };
    // ForestColl, 2 boxes of 8: each rank gets 15 pieces by 300 + 25 GB/s.
    CHECK(rate("level l0 switch@300GB/s; level l1 switch@25GB/s", "8x2") == Approx(325e9 / 15));
    CHECK(rate("torus(8,8)@1GB/s", "64") == Approx(4e9 / 63));
    CHECK(rate("switch@1GB/s", "9") == Approx(1e9 / 8));
    CHECK(rate("", "4mx2h@8Gb/s") == Approx(1e9 / 4));  // 4 ranks share a host's link
    CHECK(rate("link 0 1 3GB/s one way; link 1 2 2GB/s one way; link 2 0 5GB/s one way", "3") == Approx(1e9));
}

TEST_CASE("synthesis proves and predicts what it returns") {
    const std::string network =
        "link 0 1 10GB/s 1us; link 1 2 1GB/s 1us; link 2 3 10GB/s 1us; link 3 0 1GB/s 1us";
    for (const Collective collective :
         {Collective::all_gather, Collective::reduce_scatter, Collective::all_reduce, Collective::broadcast,
          Collective::reduce, Collective::all_to_all}) {
        INFO(name_of(collective));
        const SynthesisRequest request = to_synthesize(collective, network, 4);
        Synthesizer synthesizer(request);
        const SynthesisBound bound = synthesizer.bound();
        const Synthesized found = synthesizer.synthesize();
        CHECK(found.in_time);
        CHECK(found.busiest >= bound.seconds * (1 - 1e-9));
        CHECK(found.seconds >= found.busiest * (1 - 1e-9));
        CHECK(found.seconds < bound.seconds * 1.5);
        prove(found.text, request.collective, 4);
    }
}

TEST_CASE("synthesis measures the root that was asked for, over several paths, too") {
    for (const Collective collective : {Collective::broadcast, Collective::reduce})
        for (const Rank root : {0, 3}) {
            INFO(name_of(collective) << " of root " << root);
            SynthesisRequest request = to_synthesize(collective, two_switches(4, 0.01), 4);
            request.root = root;
            Synthesizer synthesizer(request);
            const SynthesisBound bound = synthesizer.bound();
            const Synthesized found = synthesizer.synthesize();
            CHECK(found.busiest >= bound.seconds * (1 - 1e-9));
            CHECK(found.seconds >= found.busiest * (1 - 1e-9));
            CHECK(found.seconds < bound.seconds * 1.1);
            prove(found.text, collective, 4);
        }
}

TEST_CASE("where no trees can be packed, rounds spread from a root and combine at it") {
    for (const Collective collective : {Collective::broadcast, Collective::reduce}) {
        INFO(name_of(collective));
        const Synthesized found =
            Synthesizer(to_synthesize(collective, "switch/2@1GB/s,1us", 8)).synthesize();
        CHECK(found.in_time);
        prove(found.text, collective, 8);
    }
}

TEST_CASE("a small broadcast takes as few rounds as a binomial tree") {
    SynthesisRequest request = to_synthesize(Collective::broadcast, "switch@10GB/s,1us", 16);
    request.bytes = 1024;
    const Synthesized small = Synthesizer(request).synthesize();
    CHECK(small.way.find("trees") == std::string::npos);
    INFO(small.way);
    CHECK(small.seconds < 8e-6);  // a chain takes twice as long
    prove(small.text, Collective::broadcast, 16);
}

TEST_CASE("rates that whole numbers of 63 bits cannot count are refused, or the bound is right") {
    // Two cliques, joined by one link.
    const auto rate = [](Rank half, const std::string& inside) {
        std::string text = fmt::format("link 0 {} 1000GB/s;", half);
        for (const Rank first : {Rank{0}, half})
            for (Rank a = 0; a < half; ++a)
                for (Rank b = 0; b < a; ++b)
                    text += fmt::format("link {} {} {};", first + a, first + b, inside);
        const Network network = find_network(text, flat_topology(2 * half));
        const LinkGraph graph = link_graph(Ways(network, Flow::spreads, no_deadline));
        return find_bound(graph, all_ranks(2 * half), no_deadline).rate.value() * graph.unit;
    };
    CHECK(rate(10, "900001GB/s") == Approx(1e11));
    CHECK(test::error_of([&] { rate(100, "989999.999999999GB/s"); }).find("no common unit") !=
          std::string::npos);
}

TEST_CASE("a link that is almost full does not keep rounds waiting") {
    const Network network = find_network("link 0 1 1GB/s", flat_topology(2));
    const Ways ways(network, Flow::spreads, no_deadline);
    RoundLimits limits;
    limits.seconds = 1e-24;  // a piece takes 1e15 rounds
    const Forest forest = spread_in_rounds(ways, {}, {0, 1}, limits, no_deadline);
    CHECK(forest.trees.size() == 2);
    CHECK(rounds(forest) == 1);
}

TEST_CASE("synthesis refuses what it cannot do") {
    SynthesisRequest request;
    request.ranks = 4;
    request.bytes = 1024;
    request.name = "s";
    request.collective = Collective::gather;
    CHECK(test::error_of([&] { Synthesizer{request}; }).find("no schedule of gather") != std::string::npos);
    request.collective = Collective::broadcast;
    request.root = 4;
    CHECK(test::error_of([&] { Synthesizer{request}; }).find("there is no rank 4") != std::string::npos);
    request.root = 0;
    request.network = "link 0 1 1GB/s";
    CHECK(test::error_of([&] { Synthesizer{request}; }).find("no way from rank") != std::string::npos);
    request.network = "";
    request.ranks = 1;
    CHECK(test::error_of([&] { Synthesizer(request).synthesize(); }).find("one rank alone") !=
          std::string::npos);
    request.ranks = 64;
    request.deadline = Deadline(std::chrono::duration<double>(1e-9));
    CHECK_THROWS_AS(Synthesizer(request).synthesize(), DeadlineError);
}
