#include "runtime/params/protocol/tree.hpp"

#include <catch2/catch.hpp>

#include "dsl/prediction/worker_trees.hpp"
#include "runtime/base/error.hpp"

namespace {

using namespace hocket::params;
using Workers = std::vector<Worker>;

std::map<Worker, int> in_groups_of(int size, Worker workers) {
    std::map<Worker, int> groups;
    for (Worker worker = 0; worker < workers; ++worker) groups[worker] = static_cast<int>(worker) / size;
    return groups;
}

}  // namespace

TEST_CASE("trees by their names") {
    for (const char* name : {"direct", "binary", "degree 1", "degree 12", "rack", "auto"})
        CHECK(Shape::parse(name).text() == name);
    CHECK(Shape::parse("degree 2").text() == "binary");
    for (const char* name :
         {"", "Binary", "degree", "degree ", "degree 0", "degree -1", "degree 2x", "racks"}) {
        INFO(name);
        CHECK_THROWS_AS(Shape::parse(name), hocket::Error);
    }
}

TEST_CASE("who is below whom") {
    const auto groups = in_groups_of(4, 8);
    const Tree direct(Shape::parse("direct"), groups);
    CHECK(direct.children(the_server).size() == 8);
    const Tree binary(Shape::parse("binary"), groups);
    CHECK(binary.children(the_server) == Workers{0, 1});
    CHECK(binary.children(0) == Workers{2, 3});
    CHECK(binary.children(1) == Workers{4, 5});
    CHECK(binary.children(2) == Workers{6, 7});
    const Tree wide(Shape::parse("degree 5"), groups);
    CHECK(wide.children(the_server).size() == 5);
    CHECK(wide.children(0) == Workers{5, 6, 7});
    const Tree rack(Shape::parse("rack"), groups);
    CHECK(rack.children(the_server) == Workers{0, 4});
    CHECK(rack.children(4) == Workers{5, 6, 7});
    // Numbers need not be consecutive.
    const Tree gaps(Shape::parse("degree 1"), {{3, 0}, {7, 0}, {20, 0}});
    CHECK(gaps.parent(20) == 7);
    CHECK(gaps.parent(7) == 3);
    CHECK(gaps.parent(3) == the_server);
}

TEST_CASE("how much goes over the link that is used most") {
    const auto loads = [](const char* name, const std::map<Worker, int>& groups, auto... server_groups) {
        Shape shape = Shape::parse(name);
        shape.server_groups = {server_groups...};
        return load(shape, groups);
    };
    const auto apart = in_groups_of(1, 8), racks = in_groups_of(4, 8);
    CHECK(loads("direct", apart, -1) == 8);
    CHECK(loads("binary", apart, -1) == 2);
    CHECK(loads("degree 1", apart, -1) == 1);
    CHECK(loads("rack", racks, -1) == 2);
    CHECK(loads("direct", racks, -1) == 8);
    CHECK(loads("degree 1", racks, -1) == 1);
    CHECK(loads("direct", in_groups_of(8, 8), 0) == 0);  // all on one host
    // Two servers, each in one of two racks: the other rack's workers send in, the own workers send out.
    CHECK(loads("direct", racks, 0, 1) == 2);
    CHECK(loads("rack", racks, 0, 1) == 0.5);
    CHECK(loads("direct", racks, 0, 0) == 4);
    CHECK(loads("direct", apart, 10, 11) == 4);  // each server's link has half of the weights
    CHECK(loads("binary", apart, 10, 11) == 1);  // and each worker passes on one half
    CHECK(loads("degree 4", apart, 10, 11) == 2);
    CHECK(Tree(Shape::parse("binary"), apart).depth() == 3);
    CHECK(Tree(Shape::parse("rack"), racks).most_children() == 3);
}

TEST_CASE("a tree is chosen by what it costs") {
    const auto chosen = [](const std::map<Worker, int>& groups, int servers_group, double step_cost) {
        Shape shape = Shape::parse("auto");
        shape.server_groups = {servers_group};
        shape.step_cost = step_cost;
        return Tree(shape, groups);
    };
    const Tree one_host = chosen(in_groups_of(2, 2), 0, 1.0 / 32);
    CHECK(one_host.children(the_server).size() == 2);
    // With many chunks each link carries all weights once, at the price of many levels; a single chunk would
    // take too long on its way.
    const Tree many_chunks = chosen(in_groups_of(1, 8), -1, 1.0 / 100);
    CHECK(many_chunks.depth() == 8);
    const Tree one_chunk = chosen(in_groups_of(1, 8), -1, 2);
    CHECK(one_chunk.children(the_server).size() == 2);
    // The server is in the other rack: one worker of the first rack sends all data of its rack across.
    std::map<Worker, int> groups = in_groups_of(4, 8);
    const Tree racks = chosen(groups, 1, 1.0 / 8);
    CHECK(racks.children(the_server) == Workers{0, 4});
}

TEST_CASE("a worker goes one step up, with those below it") {
    Tree tree(Shape::parse("binary"), in_groups_of(1, 7));
    tree.lift(2);
    CHECK(tree.children(the_server) == Workers{0, 1, 2});
    CHECK(tree.children(2) == Workers{6});
    tree.lift(2);  // it cannot go higher
    CHECK(tree.children(the_server) == Workers{0, 1, 2});
}

namespace {

// For each worker, the number of times that it sends or receives a chunk in a round of updates and weights,
// over all servers.
std::map<Worker, int> carried(Shape shape, const std::map<Worker, int>& groups, std::size_t servers) {
    std::map<Worker, int> messages;
    shape.server_groups.assign(servers, -1);
    for (shape.server = 0; shape.server < servers; ++shape.server) {
        const Tree tree(shape, groups);
        for (const auto& [worker, group] : groups)
            messages[worker] += 2 + 2 * static_cast<int>(tree.children(worker).size());
    }
    return messages;
}

}  // namespace

TEST_CASE("each server has a tree of its own, so that no worker carries much more than others") {
    const auto groups = in_groups_of(1, 6);
    Shape second = Shape::parse("binary");
    second.server_groups = {-1, -1};
    second.server = 1;
    CHECK(Tree(second, groups).children(the_server) == Workers{3, 4});
    CHECK(Tree(second, groups).children(3) == Workers{0, 5});
    for (const char* name : {"binary", "degree 3", "degree 4", "degree 1"})
        for (Worker workers = 2; workers < 40; ++workers) {
            const Shape shape = Shape::parse(name);
            // Nodes with children: with this many servers each worker is one in some tree.
            const auto servers = static_cast<std::size_t>(shape.degree);
            const auto all = carried(shape, in_groups_of(1, workers), servers);
            INFO(name << " over " << workers);
            for (const auto& [worker, messages] : all)
                CHECK(messages <= 2 * static_cast<int>(servers) + 4 * shape.degree);
        }
    const auto balanced = carried(Shape::parse("binary"), groups, 2);
    for (const auto& [worker, messages] : balanced) CHECK(messages <= 1.3 * 40 / 6);
}

TEST_CASE("a rack has another head for each server") {
    Shape shape = Shape::parse("rack");
    shape.server_groups = {-1, -1};
    const auto groups = in_groups_of(4, 8);
    CHECK(Tree(shape, groups).children(the_server) == Workers{0, 4});
    shape.server = 1;
    CHECK(Tree(shape, groups).children(the_server) == Workers{2, 6});
    CHECK(Tree(shape, groups).children(2) == Workers{0, 1, 3});
}

TEST_CASE("a simulated job has the service's trees") {
    using Simulated = hocket::dsl::WorkerTree;
    const std::map<std::string, Simulated> kinds = {{"direct", {}},
                                                    {"rack", {Simulated::Kind::rack}},
                                                    {"degree 1", {Simulated::Kind::degree, 1}},
                                                    {"binary", {Simulated::Kind::degree, 2}},
                                                    {"degree 3", {Simulated::Kind::degree, 3}}};
    for (const auto& [name, tree] : kinds)
        for (int workers = 1; workers <= 14; ++workers)
            for (int servers = 1; servers <= 5; ++servers) {
                hocket::dsl::Job job;
                job.workers = workers;
                job.servers = servers;
                job.tree = tree;
                job.placement = hocket::dsl::Job::Placement::order;
                const auto placed = hocket::dsl::place(job, 0, 1, 4, 64);
                Shape shape = Shape::parse(name);
                shape.server_groups.assign(static_cast<std::size_t>(servers), -1);
                for (; shape.server < placed.parents.size(); ++shape.server) {
                    const Tree real(shape, in_groups_of(4, static_cast<Worker>(workers)));
                    for (Worker worker = 0; worker < static_cast<Worker>(workers); ++worker) {
                        INFO(name << ", " << workers << " workers, server " << shape.server << ": "
                                  << worker);
                        const int above = placed.parents[shape.server][worker];
                        CHECK(real.parent(worker) ==
                              (above == hocket::dsl::the_server ? the_server : static_cast<Worker>(above)));
                    }
                }
            }
}
