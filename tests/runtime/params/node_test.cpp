// What the state machines of the parameter service send, step by step. protocol_test.cpp has all of them
// together.
#include "runtime/params/protocol/node.hpp"

#include <catch2/catch.hpp>

#include "runtime/params/protocol/root.hpp"

namespace {

using namespace hocket::params;

// Values are numbers.
Value value(int number) {
    return std::make_shared<const int>(number);
}
int number(const Value& value) {
    return *static_cast<const int*>(value.get());
}

struct Adding final : Arithmetic {
    Value sum(Chunk, const std::vector<Value>& parts) override {
        int all = 0;
        for (const Value& part : parts) all = all * 10 + number(part);  // the order shows
        return value(all);
    }
    Value updated(Chunk chunk, Clock, const Value&, const std::vector<Value>& parts,
                  const std::vector<Worker>&) override {
        return sum(chunk, parts);
    }
};

const Epoch first_epoch{1, 1}, second_epoch{1, 2};

template <typename Kind>
std::vector<Kind> sent(std::vector<Letter> letters, Worker to) {
    std::vector<Kind> found;
    for (const Letter& letter : letters)
        if (letter.to == to && std::holds_alternative<Kind>(letter.message))
            found.push_back(std::get<Kind>(letter.message));
    return found;
}

}  // namespace

TEST_CASE("a node passes a round on when all below it have pushed, summed in the order of their numbers") {
    Adding adding;
    Node node(1, 1, adding, 1);
    node.receive(the_server, Announcement{first_epoch, {{1, the_server, 0}, {2, 1, 0}, {3, 2, 0}}, {0}});
    node.receive(2, Sum{first_epoch, 0, 0, {2, 3}, value(5)});
    CHECK(sent<Sum>(node.letters(), the_server).empty());
    node.push(0, 0, value(4));
    const auto sums = sent<Sum>(node.letters(), the_server);
    REQUIRE(sums.size() == 1);
    CHECK(sums[0].workers == std::vector<Worker>{1, 2, 3});
    CHECK(number(sums[0].value) == 45);
    // A worker that comes later is not waited for before its first round.
    node.receive(the_server, Announcement{second_epoch, {{1, the_server, 0}, {2, 1, 2}}, {1}});
    node.push(0, 1, value(6));
    CHECK(sent<Sum>(node.letters(), the_server).size() == 1);
    node.push(0, 2, value(7));
    CHECK(sent<Sum>(node.letters(), the_server).empty());
}

TEST_CASE("in a new epoch a node sends again what is not applied, and nothing else") {
    Adding adding;
    Node node(1, 2, adding, 1);
    node.receive(the_server, Announcement{first_epoch, {{1, the_server, 0}}, {0, 0}});
    for (const Clock round : {0, 1})
        for (const Chunk chunk : {0, 1}) node.push(chunk, round, value(static_cast<int>(10 * round + chunk)));
    CHECK(sent<Sum>(node.letters(), the_server).size() == 4);
    CHECK(node.kept().size() == 4);
    node.receive(the_server, Announcement{second_epoch, {{1, 9, 0}, {9, the_server, 0}}, {1, 2}});
    const auto sums = sent<Sum>(node.letters(), 9);
    REQUIRE(sums.size() == 1);
    CHECK(sums[0].clock == 1);
    CHECK(sums[0].chunk == 0);
    CHECK(sums[0].epoch == second_epoch);
    node.receive(the_server, Covered{second_epoch, 1});
    CHECK(node.covered() == 1);
    CHECK(node.kept().size() == 2);
}

TEST_CASE("weights that are fresh enough are served from where they are") {
    Adding adding;
    Node node(1, 1, adding, 1);
    node.receive(the_server, Announcement{first_epoch, {{1, the_server, 0}, {2, 1, 0}}, {0}});
    node.pull(0, 2);
    CHECK(sent<Want>(node.letters(), the_server).size() == 1);
    node.receive(the_server, Weights{first_epoch, 0, 3, value(8)});
    const auto pulled = node.pulled();
    REQUIRE(pulled.size() == 1);
    CHECK(pulled[0].clock == 3);
    node.receive(2, Want{first_epoch, 0, 3});
    auto letters = node.letters();
    CHECK(sent<Want>(letters, the_server).empty());
    CHECK(sent<Weights>(letters, 2).size() == 1);
    // Two of different ages: who asks for the early one may be waited for by the late one.
    node.receive(2, Want{first_epoch, 0, 5});
    node.pull(0, 4);
    CHECK(sent<Want>(node.letters(), the_server).size() == 2);
    node.receive(the_server, Weights{first_epoch, 0, 4, value(9)});
    CHECK(node.pulled().size() == 1);
    CHECK(sent<Weights>(node.letters(), 2).empty());
}

TEST_CASE("a node keeps weights only for those who may ask for them") {
    Adding adding;
    for (const Clock staleness : {0, 1}) {
        Node node(1, 1, adding, staleness);
        node.receive(the_server, Announcement{first_epoch, {{1, the_server, 0}}, {0}});
        for (const bool is_first : {true, false}) {
            node.pull(0, 3);
            const bool asks = is_first || staleness == 0;
            CHECK(sent<Want>(node.letters(), the_server).size() == (asks ? 1 : 0));
            if (asks) node.receive(the_server, Weights{first_epoch, 0, 3, value(8)});
            CHECK(node.pulled().size() == 1);
        }
    }
}

TEST_CASE("nobody waits for a new worker before its first round, or for one that has gone") {
    Adding adding;
    Root root({1, {value(0)}, {0}, {}}, Shape::parse("direct"), adding, 2);
    CHECK(root.reserve(0) == 3);
    CHECK(root.join(0, 0, 3));
    const Clock first = root.reserve(1);
    CHECK(first == 6);          // worker 0 may be at clock 5 when the weights are of clock 3
    CHECK(root.clock(0) == 3);  // nobody takes part in the rounds before
    CHECK(root.join(1, 0, first));
    root.remove(0);
    CHECK(root.clock(0) == first);
}

TEST_CASE("a server takes sums from its children alone") {
    Adding adding;
    Root root({1, {value(0)}, {0}, {{0, 0}, {1, 0}}}, Shape::parse("degree 1"), adding);
    CHECK(root.join(0, 0, 0));
    CHECK(root.join(1, 0, 0));
    CHECK(root.tree().parent(1) == 0);
    root.receive(1, Sum{root.epoch(), 0, 0, {0, 1}, value(5)});
    CHECK(root.clock(0) == 0);
    root.receive(0, Sum{root.epoch(), 0, 0, {0, 1}, value(5)});
    CHECK(root.clock(0) == 1);
}
