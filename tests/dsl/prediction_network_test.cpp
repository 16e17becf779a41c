#include <map>
#include <random>
#include <set>

#include "dsl/prediction/network.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/dsl/prediction.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using test::us;

namespace {

dsl::Topology bcube(dsl::Rank n, int levels) {
    dsl::Topology topology;
    topology.name = "cube";
    for (int i = 0; i < levels; ++i) topology.levels.push_back({"port" + std::to_string(i), n});
    return topology;
}

std::vector<std::string> names(const dsl::Network& network, dsl::Rank from, dsl::Rank to) {
    std::vector<std::string> result;
    for (const dsl::Hop& hop : network.route(from, to).hops) result.push_back(network.links()[hop.link].name);
    return result;
}

std::string network_error(const std::string& text, const std::string& topology = "2x2") {
    return test::error_of([&] { dsl::find_network(text, dsl::grid_topology(topology)); });
}

// Returns true if a link that begins at `next` can follow where a message is.
bool follows(const dsl::Network& network, dsl::Vertex at, dsl::Vertex next) {
    const auto& free = network.free_ways();
    return at == next || std::find(free.begin(), free.end(), std::pair(at, next)) != free.end();
}

// Checks that each link of a way that takes one path begins where the one before has ended.
void check_ends(const dsl::Network& network, dsl::Rank from, dsl::Rank to) {
    const std::vector<dsl::Hop> hops = network.route(from, to).hops;
    if (std::any_of(hops.begin(), hops.end(), [](const dsl::Hop& hop) { return hop.share != 1; })) return;
    auto at = static_cast<dsl::Vertex>(from);
    for (const dsl::Hop& hop : hops) {
        const dsl::NetworkLink& link = network.links()[hop.link];
        CHECK(link.to < network.vertices());
        CHECK(follows(network, at, link.from));
        at = link.to;
    }
    CHECK(follows(network, at, static_cast<dsl::Vertex>(to)));
}

// Checks that every pair of ranks has a way of links that exist, none of them twice.
void check_routes(const dsl::Network& network) {
    for (dsl::Rank from = 0; from < network.ranks(); ++from)
        for (dsl::Rank to = 0; to < network.ranks(); ++to) {
            const dsl::Route route = network.route(from, to);
            check_ends(network, from, to);
            std::set<dsl::LinkId> seen;
            for (const dsl::Hop& hop : route.hops) {
                REQUIRE(hop.link < network.links().size());
                CHECK(seen.insert(hop.link).second);
                CHECK(hop.share > 0);
                CHECK(hop.share <= 1 + 1e-12);
            }
            CHECK(route.hops.empty() == (from == to));
            CHECK(route.latency >= 0);
        }
}

}  // namespace

TEST_CASE("a level of a topology is a switch with a link up and one down for each end") {
    const dsl::Network hosts = dsl::find_network("", dsl::grid_topology("2mx3h@8Gb/s"));
    CHECK(hosts.switches() == 1);
    CHECK(names(hosts, 0, 5) == std::vector<std::string>{"host 0 up", "host 4 down"});
    CHECK(names(hosts, 1, 5) == names(hosts, 0, 5));  // a host has one link
    CHECK(names(hosts, 0, 1) == std::vector<std::string>{"local 1 core"});
    CHECK(hosts.links()[hosts.route(0, 5).hops[0].link].rate == 1e9);
    CHECK(hosts.route(0, 5).latency == dsl::fabric_latency);
    const dsl::Network cube = dsl::find_network("", bcube(3, 2));
    CHECK(cube.switches() == 6);  // k N / n
    CHECK(cube.links().size() == 36);
    CHECK(names(cube, 0, 8) == std::vector<std::string>{"port1 0 up", "port1 8 down"});
    check_routes(cube);
}

TEST_CASE("an end of a switch may have links of another rate") {
    const auto rate = [](const dsl::Network& network, dsl::Rank from, dsl::Rank to, std::size_t hop) {
        return network.links()[network.route(from, to).hops[hop].link].rate;
    };
    const dsl::Network hosts =
        dsl::find_network("end host 3 80Mb/s", dsl::grid_topology("2mx3h@8Gb/s"));  // of ranks 2 and 3
    for (const dsl::Rank rank : {2, 3}) {
        CHECK(rate(hosts, rank, 0, 0) == 1e7);
        CHECK(rate(hosts, rank, 0, 1) == 1e9);
        CHECK(rate(hosts, 0, rank, 1) == 1e7);
    }
    CHECK(rate(hosts, 0, 4, 0) == 1e9);
    CHECK(rate(hosts, 0, 4, 1) == 1e9);
    // Behind another kind for the level, in one of its switches.
    const dsl::Network cube =
        dsl::find_network("level port1 switch/2@8Gb/s; end port1 4 1MB/s; order digits", bcube(3, 2));
    CHECK(names(cube, 4, 1) ==
          std::vector<std::string>{"port1 of 1 4 up", "port1 of 1 switch", "port1 of 1 1 down"});
    CHECK(rate(cube, 4, 1, 0) == 1e6);
    CHECK(rate(cube, 1, 4, 2) == 1e6);
    CHECK(rate(cube, 1, 7, 0) == 1e9);
    CHECK(rate(cube, 4, 3, 0) == dsl::Level().bandwidth);  // its link of the other level
}

TEST_CASE("in the order of digits ranks pass on what goes over several levels") {
    const dsl::Network cube = dsl::find_network("order digits", bcube(3, 2));
    CHECK(names(cube, 0, 8) ==
          std::vector<std::string>{"port0 0 up", "port0 2 down", "port1 2 up", "port1 8 down"});
    CHECK(cube.route(0, 8).latency == Approx(20 * us));
    CHECK(dsl::find_network("order digits; latency hop", bcube(3, 2)).route(0, 8).latency == Approx(40 * us));
    CHECK(dsl::find_network("order digits; latency none", bcube(3, 2)).route(0, 8).latency == 0);
    check_routes(cube);
}

TEST_CASE("a ring and a torus go the shorter way, and half each way where both are equal") {
    const dsl::Network ring = dsl::find_network("ring@1GB/s,5us", dsl::grid_topology("6"));
    CHECK(names(ring, 0, 2) == std::vector<std::string>{"0 to 1", "1 to 2"});
    CHECK(names(ring, 0, 5) == std::vector<std::string>{"0 to 5"});
    REQUIRE(ring.route(0, 3).hops.size() == 6);
    for (const dsl::Hop& hop : ring.route(0, 3).hops) CHECK(hop.share == 0.5);
    const dsl::Network hops =
        dsl::find_network("ring@1GB/s,5us; latency hop; routing hash(3)", dsl::grid_topology("6"));
    CHECK(hops.route(0, 3).latency == Approx(15 * us));
    CHECK(hops.route(0, 3).hops.size() == 3);
    const dsl::Network torus = dsl::find_network("torus(4, 3)@1GB/s", dsl::grid_topology("12"));
    CHECK(names(torus, 0, 11) == std::vector<std::string>{"0 to 3", "3 to 11"});
    check_routes(torus);
    // One dimension after the other, the first one first.
    CHECK(names(torus, 5, 10) == std::vector<std::string>{"5 to 6", "6 to 10"});
}

TEST_CASE("a level can be another kind, for the ends of each of its groups") {
    const dsl::Topology topology = dsl::grid_topology("2x4");
    const dsl::Network rails = dsl::find_network("level l1 ring@1GB/s", topology);
    // Rank 0 and 3 differ in both levels: first inside, then along the ring of odd ranks.
    CHECK(names(rails, 0, 3) == std::vector<std::string>{"l0 0 up", "l0 1 down", "l1 of 1 1 to 3"});
    check_routes(rails);
    const dsl::Network blocking = dsl::find_network("level l1 switch/4", topology);
    CHECK(names(blocking, 0, 3) == std::vector<std::string>{"l1 0 up", "l1 switch", "l1 3 down"});
    CHECK(blocking.links()[blocking.route(0, 3).hops[1].link].rate == 8 * 1.25e9 / 4);
    // Ranks of a host share its end of the torus.
    const dsl::Network hosts = dsl::find_network("level host torus(2,2)", dsl::grid_topology("3mx4h"));
    CHECK(names(hosts, 1, 11) == std::vector<std::string>{"host 0 to 3", "host 3 to 9"});
    check_routes(hosts);
    check_routes(dsl::find_network("level l1 mesh; level l0 ring; order digits", topology));
    check_routes(dsl::find_network("level host switch/2", dsl::grid_topology("2hx2m")));
}

TEST_CASE("a fat-tree has three tiers of switches") {
    const dsl::Network tree = dsl::find_network("fattree(4)@1GB/s", dsl::grid_topology("16"));
    CHECK(tree.switches() == 20);
    CHECK(names(tree, 0, 1) == std::vector<std::string>{"0 up", "1 down"});
    CHECK(names(tree, 0, 2) == std::vector<std::string>{"0 up", "edge 0 up", "edge 1 down", "2 down"});
    CHECK(names(tree, 0, 15) ==
          std::vector<std::string>{"0 up", "edge 0 up", "pod 0 up", "pod 3 down", "edge 7 down", "15 down"});
    CHECK(tree.links()[tree.route(0, 15).hops[1].link].rate == 2e9);
    CHECK(tree.links()[tree.route(0, 15).hops[2].link].rate == 4e9);
    const dsl::Network thin = dsl::find_network("fattree(4)/4@1GB/s", dsl::grid_topology("16"));
    CHECK(thin.links()[thin.route(0, 15).hops[1].link].rate == 0.5e9);
    CHECK(thin.links()[thin.route(0, 15).hops[2].link].rate == 4e9);
    CHECK(dsl::find_network("fattree(16)", dsl::grid_topology("1024")).switches() == 320);
    // One path a pair, and all paths are used by some pair.
    const dsl::Network drawn = dsl::find_network("fattree(4); routing hash(1)", dsl::grid_topology("16"));
    check_routes(drawn);
    std::set<std::string> cores;
    for (dsl::Rank from = 0; from < 4; ++from)
        for (dsl::Rank to = 4; to < 16; ++to) cores.insert(names(drawn, from, to)[2]);
    CHECK(cores == std::set<std::string>{"pod 0.0 up", "pod 0.1 up", "pod 0.2 up", "pod 0.3 up"});
}

TEST_CASE("a graph has the shortest ways, and divides messages where they part") {
    const std::string text =
        "link 0 a 1GB/s 1us   # two switches, three ways between them\n"
        "link a b 1GB/s 2us\nlink a c 1GB/s 3us\nlink b d 1GB/s 2us\nlink c d 1GB/s 3us both\n"
        "link a e 1GB/s; link e f 1GB/s; link f d 1GB/s\n"
        "link d 1 2GB/s 1us\n";
    const dsl::Network graph = dsl::find_network(text, dsl::grid_topology("2"));
    CHECK(graph.switches() == 6);
    const dsl::Route route = graph.route(0, 1);
    std::map<std::string, double> shares;
    for (const dsl::Hop& hop : route.hops) shares[graph.links()[hop.link].name] = hop.share;
    CHECK(shares == std::map<std::string, double>{{"0 to a", 1},
                                                  {"a to b", 0.5},
                                                  {"a to c", 0.5},
                                                  {"b to d", 0.5},
                                                  {"c to d", 0.5},
                                                  {"d to 1", 1}});
    CHECK(route.latency == Approx(3 * us));
    CHECK(dsl::find_network(text + "latency hop", dsl::grid_topology("2")).route(0, 1).latency ==
          Approx(8 * us));
    const dsl::Network drawn = dsl::find_network(text + "routing hash(2)", dsl::grid_topology("2"));
    CHECK(drawn.route(0, 1).hops.size() == 4);
    check_routes(graph);
    check_routes(drawn);
}

TEST_CASE("nonsense about a network gets a diagnostic") {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"link 0 1 1GB/s\nlink 2 3 1GB/s", "there is no way from rank 0 to rank 2"},
        {"link 0 1 1GB/s one way; link 0 2 1GB/s; link 0 3 1GB/s", "there is no way from rank 1 to rank 0"},
        {"link 0 1 0Gb/s", "a rate must be more than 0"},
        {"link 0 1 -1Gb/s", "a rate must be more than 0"},
        {"link 0 1 1e400Gb/s", "out of range"},
        {"link 0 1 infGb/s", "out of range"},
        {"link 0 1 10", "the rate 10 has no unit"},
        {"link 0 1 1Gb/s -5us", "a time must be 0 or more"},
        {"link 0 1 1Gb/s 5", "the time 5 has no unit"},
        {"link 0 1 1Gb/s 5us sideways", "does not belong to a link"},
        {"link 0 4 1Gb/s", "there is no rank 4"},
        {"link 0 99999999999999999999 1Gb/s", "there is no rank"},
        {"link 0 0 1Gb/s", "to itself"},
        {"link 0", "not complete"},
        {"torus(2,3)", "6 places for 4 ends"},
        {"torus(2,0)", "a dimension of 0"},
        {"torus(4611686018427387904,4611686018427387904)", "a dimension of"},
        {"torus(2", "parentheses"},
        {"torus(x)", "whole number"},
        {"fattree(3)", "3 ports"},
        {"fattree(2)", "4 ends, and room for 2"},
        {"fattree", "no such kind"},
        {"hypercube", "no such kind"},
        {"switch/0", "factor"},
        {"ring/2", "only a switch"},
        {"ring@0b/s", "a rate must be more than 0"},
        {"ring; mesh", "second network"},
        {"routing hash(1); ring; routing spread", "a second rule for 'routing'"},
        {"order digits; order digits", "a second rule for 'order'"},
        {"latency hop; latency none", "note: the first is here"},
        {" ; # nothing", "a network without a statement"},
        {"ring; link 0 1 1GB/s", "second network"},
        {"level l0 ring; mesh", "second network"},
        {"level l7 ring", "no such level"},
        {"level l0", "not complete"},
        {"end l0 1", "not complete"},
        {"end l7 1 1Gb/s", "no such level"},
        {"end l0 4 1Gb/s", "no such rank"},
        {"end l0 -1 1Gb/s", "whole number"},
        {"end l0 1 fast", "a rate begins with a number"},
        {"level l0 ring; end l0 1 1Gb/s", "no rates of their own"},
        {"end l0 1 1Gb/s; ring", "second network"},
        {"routing best", "rule is unknown"},
        {"routing hash(1,2)", "no such routing"},
        {"order", "rule is unknown"},
        {"speed 5", "no statement"},
        {"there-is-no.network", "cannot read the network"},
    };
    for (const auto& [text, error] : cases) {
        INFO(text);
        CHECK_THAT(network_error(text), Catch::Contains(error));
    }
    CHECK(network_error("level local ring", "2mx2h").find("is memory") != std::string::npos);
    CHECK(network_error("mesh", "4000").find("more than 4194304 links") != std::string::npos);
    // Where it is wrong.
    CHECK_THAT(network_error("ring@1GB/s\nlatency long"), Catch::Contains("<network>:2:9: error"));
    CHECK_THAT(network_error("ring@100gb/s"),
               Catch::Contains("<network>:1:9: error") && Catch::Contains("write 100Gb/s for bits"));
    CHECK_THAT(network_error("torus(2, 2)@1Gb/s,5"), Catch::Contains("<network>:1:20: error"));
    CHECK_THAT(network_error("ring;\n routing spread; routing hash(1)"),
               Catch::Contains("<network>:2:18: error") && Catch::Contains("<network>:2:2: note"));
    dsl::Topology slow = dsl::grid_topology("2x2");
    slow.levels[1].bandwidth = 0;
    CHECK_THAT(test::error_of([&] { dsl::find_network("", slow); }), Catch::Contains("a rate of 0"));
}

TEST_CASE("a file has the same statements as an argument") {
    const test::TemporaryFolder folder;
    folder.write("a.network", "# four ranks\nring@1GB/s\nlatency hop  # by hop\n");
    const dsl::Network file = dsl::find_network(folder.path() + "/a.network", dsl::grid_topology("4"));
    CHECK(names(file, 0, 1) == std::vector<std::string>{"0 to 1"});
    CHECK(file.spec().routing.latency == dsl::Routing::Latency::hop);
    folder.write("b.network", "ring@1GB/s\nrouting by bus");
    CHECK_THAT(network_error(folder.path() + "/b.network"), Catch::Contains("b.network:2:12: error"));
}

TEST_CASE("a rate that sums or divisions make impossible is refused") {
    for (const char* text : {"fattree(4)@1e308B/s", "switch/100@5e-324B/s"}) {
        INFO(text);
        CHECK_THAT(network_error(text), Catch::Contains("bytes a second"));
    }
}

TEST_CASE("a level has one kind") {
    CHECK_THAT(network_error("level l0 ring; level l0 mesh"),
               Catch::Contains("this level has a kind already: 'l0'"));
}

TEST_CASE("any text is a network or gets a diagnostic") {
    const std::vector<std::string> words = {"link",     "level",
                                            "routing",  "order",
                                            "latency",  "ring",
                                            "mesh",     "torus(2,2)",
                                            "torus(",   "switch",
                                            "switch/2", "fattree(4)",
                                            "@1GB/s",   "@",
                                            ",",        "1us",
                                            "10Gb/s",   "1Gb/s",
                                            "0",        "1",
                                            "2",        "3",
                                            "a",        "b",
                                            "both",     "one",
                                            "way",      "spread",
                                            "hash",     "hash(7)",
                                            "hop",      "message",
                                            "digits",   "outermost",
                                            "l0",       "l1",
                                            "#",        ")",
                                            "(",        "/",
                                            "\xff",     "99999999",
                                            "-1",       "1e308GB/s",
                                            "torus(4)", "switch@1e308B/s"};
    std::mt19937 random(35);
    const auto below = [&](std::size_t most) { return random() % most; };
    std::size_t networks = 0, refused = 0;
    for (int trial = 0; trial < 20000; ++trial) {
        std::string text;
        if (below(2) == 0) {  // likely to be right
            for (int i = 0; i < 4; ++i)
                text += "link " + words[18 + below(4)] + " " + words[18 + below(6)] + " 1GB/s" +
                        (below(3) == 0 ? " one way" : "") + (below(9) == 0 ? " 1us" : "") + "\n";
        }
        for (std::size_t i = below(8); i > 0; --i)
            text += words[below(words.size())] + std::string(below(4) == 0 ? "" : below(4) == 0 ? "\n" : " ");
        if (!text.empty() && below(4) == 0) text[below(text.size())] = static_cast<char>(below(256));
        INFO(text);
        if (text.ends_with(".network")) continue;
        try {
            const dsl::Network network = dsl::find_network(text, dsl::grid_topology("2x2"));
            ++networks;
            for (const dsl::NetworkLink& link : network.links())
                REQUIRE((link.rate > 0 && link.latency >= 0));
            check_routes(network);
        } catch (const dsl::DiagnosticError& error) {
            ++refused;
            REQUIRE(std::string(error.what()).find("error: ") != std::string::npos);
        }
    }
    CHECK(networks > 500);
    CHECK(refused > 5000);
}
