// The messages that each state machine of the parameter service sends, step by step. protocol_test.cpp runs
// all of them together.
#include "runtime/params/protocol/node.hpp"

#include <catch2/catch.hpp>

#include "runtime/params/protocol/root.hpp"
#include "runtime/transport/net/frame.hpp"

namespace {

using namespace hocket::params;
using hocket::transport::ProtocolError;

// Values are numbers.
Value value(int number) {
    return std::make_shared<const int>(number);
}
int number(const Value& value) {
    return *static_cast<const int*>(value.get());
}

struct AddingArithmetic final : Arithmetic {
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

TEST_CASE("a worker that has joined begins with its own round, whatever others have heard of it") {
    AddingArithmetic adding;
    Root root(Snapshot{2, {value(1)}, {1}, {{0, 0}, {1, 0}}}, Shape::parse("direct"), adding);
    REQUIRE(root.join(2, 0, 3));
    // The server before this one had reserved an earlier round for it.
    REQUIRE(root.resume(0, 0, Recollection{{{0, 0}, {1, 0}, {2, 1}}, {}, 1, 1}));
    CHECK(root.first_of(2) == 3);
    // Worker 3 was only expected there, and joins here with a later round than two others have heard.
    REQUIRE(root.resume(1, 0, Recollection{{{0, 0}, {1, 0}, {3, 2}}, {}, 1, 1}));
    CHECK(root.first_of(3) == 2);
    REQUIRE(root.resume(0, 0, Recollection{{{0, 0}, {1, 0}, {3, 1}}, {}, 1, 1}));
    CHECK(root.first_of(3) == 2);
}

TEST_CASE("a worker that was given up stays expected until all others have told what they have seen") {
    AddingArithmetic adding;
    const Snapshot saved{2, {value(1)}, {2}, {{0, 0}, {1, 0}, {2, 5}}};
    Root root(saved, Shape::parse("direct"), adding);
    root.keep_what_lacks(saved);
    root.remove(0);
    CHECK_FALSE(root.has(0));
    CHECK(root.expected() == std::vector<Worker>{1, 2});
    CHECK_FALSE(root.resume(0, 0, {}));

    REQUIRE(root.resume(1, 0, Recollection{{{0, 0}, {1, 0}, {2, 5}}, {}, 2, 3}));
    const auto told = sent<Announcement>(root.letters(), 1);
    REQUIRE(told.size() == 1);
    CHECK(told[0].expected == std::vector<Expected>{{0, 0}, {2, 5}});
    CHECK(told[0].departed.empty());
    CHECK(root.snapshot().firsts.contains(0));
    CHECK_FALSE(root.has_unsaved_departures());
    // Worker 2 takes part from round 5 on. Without worker 0 rounds would go on, and its updates that only
    // worker 2 has seen could no longer be told from those of these rounds.
    root.receive(1, Sum{root.epoch(), 0, 2, {1}, value(7)});
    CHECK(root.clock(0) == 2);
    CHECK(root.lost().empty());

    REQUIRE(root.resume(2, 0, Recollection{{{0, 0}, {1, 0}, {2, 5}}, {}, 4, 5}));
    const std::vector<Lost> lost = root.lost();
    REQUIRE(lost.size() == 1);
    CHECK((lost[0].worker == 0 && lost[0].first == 2 && lost[0].end == 4));
    const auto decided = sent<Announcement>(root.letters(), 1);
    REQUIRE(decided.size() == 1);
    CHECK(decided[0].expected.empty());
    CHECK(decided[0].departed == std::vector<Departed>{{0, 0, 2}});
    root.receive(1, Sum{root.epoch(), 0, 2, {1}, value(7)});
    CHECK(root.clock(0) == 3);
}

TEST_CASE("updates that one server has named as lost are not named by the next one") {
    AddingArithmetic adding;
    Root root(Snapshot{3, {value(1)}, {2}, {{0, 0}, {1, 0}, {2, 0}}}, Shape::parse("direct"), adding);
    root.remove(0);
    // Worker 1 has seen rounds 4 to 6 without worker 0, of the server between.
    REQUIRE(root.resume(1, 0, Recollection{{{1, 0}, {2, 0}}, {{0, 0, 2}}, 7, 7}));
    REQUIRE(root.resume(2, 0, Recollection{{{1, 0}, {2, 0}}, {{0, 0, 2}}, 4, 4}));
    CHECK(root.lost().empty());
    CHECK_FALSE(root.resume(0, 0, {}));
}

TEST_CASE("what only a worker has seen that the server between had given up is named as lost") {
    AddingArithmetic adding;
    Root root(Snapshot{3, {value(1)}, {2}, {{0, 0}, {1, 0}, {2, 0}}}, Shape::parse("direct"), adding);
    // The server between had given up workers 0 and 2. It knew nothing of what worker 2 had seen.
    REQUIRE(root.resume(2, 0, Recollection{{{0, 0}, {1, 0}, {2, 0}}, {}, 5, 5}));
    CHECK(root.lost().empty());
    REQUIRE(root.resume(1, 0, Recollection{{{1, 0}}, {{0, 0, 3}, {2, 0, 3}}, 7, 7}));
    const std::vector<Lost> lost = root.lost();
    REQUIRE(lost.size() == 1);
    CHECK((lost[0].worker == 0 && lost[0].first == 2 && lost[0].end == 5));
    CHECK(root.has(2));
    CHECK_FALSE(root.resume(0, 0, {}));
}

TEST_CASE("updates that a worker has pushed again are not lost, even if it is then given up again") {
    AddingArithmetic adding;
    Root root(Snapshot{3, {value(1)}, {2}, {{0, 0}, {1, 5}}}, Shape::parse("direct"), adding);
    REQUIRE(root.resume(0, 0, Recollection{{{0, 0}, {1, 5}}, {}, 2, 4}));
    root.receive(0, Sum{root.epoch(), 0, 2, {0}, value(7)});
    CHECK(root.clock(0) == 3);
    root.remove(0);
    REQUIRE(root.resume(1, 0, Recollection{{{1, 5}}, {{0, 0, 4}}, 6, 6}));
    const std::vector<Lost> lost = root.lost();
    REQUIRE(lost.size() == 1);
    CHECK((lost[0].worker == 0 && lost[0].first == 3 && lost[0].end == 4));
}

namespace {

// A server at round 4 with workers 0 and 1 whose worker 1 closes in the middle of round 4: its snapshot has
// all before that, and lists the worker as departed. Then the round of chunk 0 is applied.
Snapshot close_in_the_middle_of_round_4(Root& root) {
    root.keep_what_lacks(root.snapshot());
    for (const Worker worker : {0, 1}) REQUIRE(root.join(worker, 0, 0));
    root.receive(1, Sum{root.epoch(), 0, 4, {1}, value(7)});
    root.leave_after(1, 4);
    const Snapshot snapshot = root.snapshot();
    REQUIRE(snapshot.departed.at(1) == Departed{1, 0, 4});
    root.receive(0, Sum{root.epoch(), 0, 4, {0}, value(8)});
    REQUIRE(root.clock(0) == 5);
    return snapshot;
}

const Snapshot before_round_4{1, {value(1), value(1)}, {4, 4}, {{0, 0}, {1, 0}}};

}  // namespace

TEST_CASE("updates of a round in whose middle a worker closed are saved, or announced until they are") {
    AddingArithmetic adding;
    for (const bool is_kept_late : {false, true}) {
        Root root(before_round_4, Shape::parse("direct"), adding);
        const Snapshot snapshot = close_in_the_middle_of_round_4(root);
        if (!is_kept_late) root.keep_what_lacks(snapshot);
        root.letters();
        root.remove(1);
        if (is_kept_late) root.keep_what_lacks(snapshot);
        CHECK(root.has_unsaved_departures());
        root.letters();
        root.trust(0);
        const auto told = sent<Announcement>(root.letters(), 0);
        REQUIRE(told.size() == 1);
        CHECK(told[0].departed == std::vector<Departed>{{1, 0, 5}});

        root.keep_what_lacks(root.snapshot());
        CHECK_FALSE(root.has_unsaved_departures());
        root.trust(0);
        CHECK(sent<Announcement>(root.letters(), 0).at(0).departed.empty());
    }
}

TEST_CASE("updates of a round in whose middle a worker closed are named if a later server lacks them") {
    AddingArithmetic adding;
    Root before(before_round_4, Shape::parse("direct"), adding);
    Snapshot snapshot = close_in_the_middle_of_round_4(before);
    ++snapshot.incarnation;
    // The other worker has pulled chunk 0, and has heard that worker 1 is gone, or not yet.
    const Recollection heard{{{0, 0}}, {{1, 0, 5}}, 5, 5}, not_heard{{{0, 0}, {1, 0}}, {}, 5, 5};
    for (const Recollection& told : {heard, not_heard}) {
        Root root(snapshot, Shape::parse("direct"), adding);
        REQUIRE(root.resume(0, 0, told));
        const std::vector<Lost> lost = root.lost();
        REQUIRE(lost.size() == 1);
        CHECK((lost[0].worker == 1 && lost[0].first == 4 && lost[0].end == 5));
        REQUIRE(root.resume(0, 0, told));
        CHECK(root.lost().empty());
    }
    // Nobody has seen more than the snapshot has.
    Root root(snapshot, Shape::parse("direct"), adding);
    REQUIRE(root.resume(0, 0, Recollection{{{0, 0}, {1, 0}}, {}, 4, 5}));
    CHECK(root.lost().empty());
}

TEST_CASE("a node that has told another server what it has seen takes no more of the old one's weights") {
    AddingArithmetic adding;
    Node node(1, 1, adding);
    const std::vector<Member> members = {{0, the_server, 0}, {1, 0, 0}};
    node.receive(the_server, Announcement{first_epoch, members, {0}});
    node.receive(0, Weights{first_epoch, 0, 1, value(3)});
    node.push(0, 1, value(4));
    node.pull(0, 2);
    node.letters();
    const Recollection told = node.recollect();
    CHECK(told.seen == 1);
    CHECK(told.pushed == 2);
    CHECK(told.members == std::vector<Expected>{{0, 0}, {1, 0}});

    // Its parent has still had these.
    node.receive(0, Weights{first_epoch, 0, 2, value(5)});
    CHECK(node.pulled().empty());
    CHECK(node.recollect().seen == 1);

    // Also if the server was the same one after all, it announces another epoch, in which the node asks
    // again.
    node.receive(the_server, Announcement{second_epoch, members, {0}});
    CHECK(sent<Want>(node.letters(), 0).size() == 1);
    node.receive(0, Weights{second_epoch, 0, 2, value(5)});
    CHECK(node.pulled().size() == 1);
}

TEST_CASE("a node passes a round on when all below it have pushed, summed in the order of their numbers") {
    AddingArithmetic adding;
    Node node(1, 1, adding, 1);
    node.receive(the_server, Announcement{first_epoch, {{1, the_server, 0}, {2, 1, 0}, {3, 2, 0}}, {0}});
    node.receive(2, Sum{first_epoch, 0, 0, {2, 3}, value(5)});
    CHECK(sent<Sum>(node.letters(), the_server).empty());
    node.push(0, 0, value(4));
    const auto sums = sent<Sum>(node.letters(), the_server);
    REQUIRE(sums.size() == 1);
    CHECK(sums[0].workers == std::vector<Worker>{1, 2, 3});
    CHECK(number(sums[0].value) == 45);
    // The node does not wait for a worker that joins later before that worker's first round.
    node.receive(the_server, Announcement{second_epoch, {{1, the_server, 0}, {2, 1, 2}}, {1}});
    node.push(0, 1, value(6));
    CHECK(sent<Sum>(node.letters(), the_server).size() == 1);
    node.push(0, 2, value(7));
    CHECK(sent<Sum>(node.letters(), the_server).empty());
}

TEST_CASE("in a new epoch a node sends again what is not applied, and nothing else") {
    AddingArithmetic adding;
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
    AddingArithmetic adding;
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
    // Two requests of different ages: the sender of the late one may wait for the sender of the early one.
    node.receive(2, Want{first_epoch, 0, 5});
    node.pull(0, 4);
    CHECK(sent<Want>(node.letters(), the_server).size() == 2);
    node.receive(the_server, Weights{first_epoch, 0, 4, value(9)});
    CHECK(node.pulled().size() == 1);
    CHECK(sent<Weights>(node.letters(), 2).empty());
}

TEST_CASE("a node keeps weights only for those who may ask for them") {
    AddingArithmetic adding;
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

TEST_CASE("rounds are not passed over before somebody is there") {
    AddingArithmetic adding;
    Root root({2, {value(0)}, {4}, {{0, 0}, {1, 9}}}, Shape::parse("direct"), adding);
    root.remove(0);  // worker 1 is expected, and begins with round 9
    CHECK(root.clock(0) == 4);
    root.remove(1);
    CHECK(root.clock(0) == 4);
    root.join(2, 0, root.reserve(2));
    CHECK(root.clock(0) == 5);
}

TEST_CASE("nobody waits for a new worker before its first round, or for one that has gone") {
    AddingArithmetic adding;
    Root root({1, {value(0)}, {0}, {}}, Shape::parse("direct"), adding, 2);
    CHECK(root.reserve(0) == 3);
    CHECK(root.join(0, 0, 3));
    const Clock first = root.reserve(1);
    CHECK(first == 6);          // worker 0 may be at clock 5 when the weights are of clock 3
    CHECK(root.clock(0) == 3);  // no worker takes part in the earlier rounds
    CHECK(root.join(1, 0, first));
    root.remove(0);
    CHECK(root.clock(0) == first);
}

TEST_CASE("a tree keeps its shape when a node of it dies or is silent") {
    AddingArithmetic adding;
    Snapshot first{1, {value(0)}, {0}, {}};
    for (Worker worker = 0; worker < 6; ++worker) first.firsts.emplace(worker, 0);
    Root root(first, Shape::parse("rack"), adding);
    for (Worker worker = 0; worker < 6; ++worker) CHECK(root.join(worker, worker < 3 ? 0 : 1, 0));
    using Workers = std::vector<Worker>;
    CHECK(root.tree().children(the_server) == Workers{0, 3});
    root.suspect(0);
    CHECK(root.tree().children(the_server) == Workers{0, 1, 3});  // it has no children
    CHECK(root.tree().children(1) == Workers{2});
    root.remove(0);
    CHECK(root.tree().children(the_server) == Workers{1, 3});
    // A worker that cannot reach its parent is not told to try that parent again before another worker joins.
    root.receive(5, ParentLost{root.epoch()});
    CHECK(root.tree().children(the_server) == Workers{1, 3, 5});
    root.remove(1);
    CHECK(root.tree().children(the_server) == Workers{2, 3, 5});
    CHECK(root.join(6, 0, root.reserve(6)));
    CHECK(root.tree().children(the_server) == Workers{2, 3});
    CHECK(root.tree().children(3) == Workers{4, 5});
}

TEST_CASE("a server takes sums from its children alone") {
    AddingArithmetic adding;
    Root root({1, {value(0)}, {0}, {{0, 0}, {1, 0}}}, Shape::parse("degree 1"), adding);
    CHECK(root.join(0, 0, 0));
    CHECK(root.join(1, 0, 0));
    CHECK(root.tree().parent(1) == 0);
    root.receive(1, Sum{root.epoch(), 0, 0, {0, 1}, value(5)});
    CHECK(root.clock(0) == 0);
    root.receive(0, Sum{root.epoch(), 0, 0, {0, 1}, value(5)});
    CHECK(root.clock(0) == 1);
}

TEST_CASE("a server takes from each only updates of workers below it") {
    AddingArithmetic adding;
    Root root({1, {value(0)}, {0}, {{0, 0}, {1, 0}, {2, 0}}}, Shape::parse("binary"), adding);
    for (const Worker worker : {0, 1, 2}) CHECK(root.join(worker, 0, 0));
    CHECK(root.tree().parent(2) == 0);
    CHECK_THROWS_AS(root.receive(1, Sum{root.epoch(), 0, 0, {1, 2}, value(5)}), ProtocolError);
    CHECK_THROWS_AS(root.receive(1, Sum{root.epoch(), 0, 0, {1, 7}, value(5)}), ProtocolError);
    CHECK_THROWS_AS(root.receive(1, Covered{root.epoch(), 1}), ProtocolError);
    CHECK_THROWS_AS(root.receive(1, ParentLost{root.epoch()}), ProtocolError);
    root.receive(0, Sum{root.epoch(), 0, 0, {0, 2}, value(5)});
    root.receive(1, Sum{root.epoch(), 0, 0, {1}, value(5)});
    CHECK(root.clock(0) == 1);
}

TEST_CASE("a node takes from each only what it has to say in its place") {
    AddingArithmetic adding;
    Node node(1, 1, adding, 1);
    const std::vector<Member> members{{1, 9, 0}, {2, 1, 0}, {3, 2, 0}, {4, 1, 0}, {9, the_server, 0}};
    node.receive(the_server, Announcement{first_epoch, members, {0}});
    for (const Worker from : {2, 9}) {
        CHECK_THROWS_AS(node.receive(from, Announcement{second_epoch, {{1, the_server, 0}}, {5}}),
                        ProtocolError);
        CHECK_THROWS_AS(node.receive(from, Covered{first_epoch, 1}), ProtocolError);
        CHECK_THROWS_AS(node.receive(from, ParentLost{first_epoch}), ProtocolError);
    }
    CHECK(node.epoch() == first_epoch);
    for (const Worker nobodys : {4, 7})
        CHECK_THROWS_AS(node.receive(2, Sum{first_epoch, 0, 0, {2, nobodys}, value(5)}), ProtocolError);
    node.pull(0, 1);
    for (const Worker from : {Worker{2}, the_server})
        node.receive(from, Weights{first_epoch, 0, 1, value(8)});
    CHECK(node.pulled().empty());
    node.receive(9, Weights{first_epoch, 0, 1, value(8)});
    CHECK(node.pulled().size() == 1);
}

TEST_CASE("a node keeps what comes early of one epoch, and while the child is there") {
    AddingArithmetic adding;
    Node node(1, 1, adding, 1);
    const Epoch third_epoch{1, 3};
    const auto sum = [](const Epoch& epoch) { return Sum{epoch, 0, 0, {2}, value(5)}; };
    node.receive(2, sum(second_epoch));
    node.receive(2, Want{third_epoch, 0, 1});
    node.receive(2, sum(second_epoch));  // the want has overtaken this sum
    CHECK(node.early(2) == 1);
    node.receive(2, sum(third_epoch));
    CHECK(node.early(2) == 2);
    node.receive(3, sum(third_epoch));
    node.child_lost(3);
    CHECK(node.early(3) == 0);
    node.push(0, 0, value(4));
    node.receive(the_server, Announcement{third_epoch, {{1, the_server, 0}, {2, 1, 0}}, {0}});
    const auto letters = node.letters();
    const auto sums = sent<Sum>(letters, the_server);
    REQUIRE(sums.size() == 1);
    CHECK(number(sums[0].value) == 45);
    CHECK(sent<Want>(letters, the_server).size() == 1);
}
