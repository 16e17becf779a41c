#include "runtime/params/protocol/tree.hpp"

#include <catch2/catch.hpp>

#include "runtime/error.hpp"

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
    for (const char* name : {"direct", "binary", "degree 1", "degree 12", "rack"})
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
    // Numbers need not follow one another.
    const Tree gaps(Shape::parse("degree 1"), {{3, 0}, {7, 0}, {20, 0}});
    CHECK(gaps.parent(20) == 7);
    CHECK(gaps.parent(7) == 3);
    CHECK(gaps.parent(3) == the_server);
}

TEST_CASE("what becomes of those that are below") {
    const Tree whole(Shape::parse("binary"), in_groups_of(1, 7));
    Tree tree = whole;
    tree.remove(0);
    CHECK_FALSE(tree.contains(0));
    CHECK(tree.children(the_server) == Workers{1, 2, 3});
    CHECK(tree.children(2) == Workers{6});
    tree = whole;
    tree.make_leaf(2);
    CHECK(tree.children(the_server) == Workers{0, 1, 2});
    CHECK(tree.children(0) == Workers{3, 6});
    CHECK(tree.children(2).empty());
    tree = whole;
    tree.lift(2);
    CHECK(tree.children(the_server) == Workers{0, 1, 2});
    CHECK(tree.children(2) == Workers{6});
    tree.lift(2);  // it cannot go higher
    CHECK(tree.children(the_server) == Workers{0, 1, 2});
}
