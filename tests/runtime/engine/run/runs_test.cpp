// The ways to run a plan, each driven directly: their single steps, and that no order of the ranks' steps or
// of the messages changes the result.
#include <fmt/format.h>

#include <vector>

#include "runtime/engine/run/graph_run.hpp"
#include "runtime/engine/run/shared_run.hpp"
#include "runtime/engine/run/small_run.hpp"
#include "tests/runtime/engine/programs.hpp"
#include "tests/runtime/engine/run/puppets.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using dsl::Collective;
using dsl::Protocol;
using engine::GraphRun;
using engine::SharedRun;
using engine::SmallRun;
using test::Play;
using test::Stage;

namespace {

const unsigned seeds = test::in_long_form(4u, 2u);

std::string text_of(const Play& play) {
    return fmt::format("{} by '{}' on {}{}{}", name_of(play.collective), play.schedule, play.hosts,
                       play.in_window ? ", in the window" : "", play.in_place ? ", in place" : "");
}

struct Piece {
    Collective collective;
    const char* schedule;
};

const std::vector<Piece>& pieces() {
    using enum Collective;
    static const std::vector<Piece> pieces = {
        {all_reduce, "ring"},       {all_reduce, "direct"}, {all_reduce, "halving"}, {all_reduce, "exchange"},
        {reduce_scatter, "direct"}, {all_gather, "ring"},   {broadcast, "binomial"}, {broadcast, "chain(4)"},
        {reduce, "binomial"},       {gather, "binomial"},   {scatter, "binomial"},   {all_to_all, "pairwise"},
        {all_to_all, "bruck"},
    };
    return pieces;
}

// Small, large, none, uneven, and again: the next start uses the memory of an earlier one.
const std::vector<std::uint64_t> counts = {5, 0, 1, 1000, 3, 4'001, 7, 7};

void check_in_any_order(const Play& play, const std::vector<std::uint64_t>& counts) {
    for (unsigned seed = 1; seed <= seeds; ++seed) {
        INFO(text_of(play) << ", seed " << seed);
        Stage stage(play, seed);
        REQUIRE(stage.play(counts) == "");
    }
}

template <typename Kind>
bool is_a(const engine::Run& run) {
    return dynamic_cast<const Kind*>(&run) != nullptr;
}

}  // namespace

TEST_CASE("messages may come in any order, and find no room at times, without a change of the result") {
    for (const Piece& piece : pieces()) {
        check_in_any_order({.collective = piece.collective, .schedule = piece.schedule, .hosts = "abcd"},
                           counts);
        check_in_any_order({.collective = piece.collective,
                            .schedule = piece.schedule,
                            .hosts = "abcd",
                            .in_place = true,
                            .root = 2},
                           {5, 4'001});
    }
    check_in_any_order({.hosts = "abcdefg"}, counts);
}

TEST_CASE("ranks of one host may be as far apart as slots allow without a change of the result") {
    std::vector<std::uint64_t> many;  // so that slots are used again
    for (std::uint64_t i = 0; i < 2 * engine::LocalPeers::slots; ++i) many.push_back(i * i % 300);
    // Several tiles of each rank's copies, the last also if ranks share cores; again in slots that have had
    // an odd and an even number of tiles.
    for (const std::uint64_t count : {40'000, 100'000, 60'000, 7, 20'000, 300, 40'000, 9})
        many.push_back(count);
    for (std::uint64_t i = 0; i < engine::LocalPeers::slots; ++i) many.push_back(50'000 + i);
    int number = 0;
    for (const Piece& piece : pieces())
        for (const char* hosts : {"aaaa", "aa"})  // two swap the memory of their copies
            for (const bool in_window : {false, true})
                for (const Protocol protocol : {Protocol::bandwidth, Protocol::latency})
                    for (const bool shares_cores : {false, true}) {
                        if (protocol == Protocol::latency && in_window) continue;  // copied anyway
                        if (number++ % test::in_long_form(1, 11) != 0) continue;
                        const Play play{.collective = piece.collective,
                                        .schedule = piece.schedule,
                                        .hosts = hosts,
                                        .protocol = protocol,
                                        .in_window = in_window,
                                        .root = 1,
                                        .shares_cores = shares_cores};
                        INFO(text_of(play) << (shares_cores ? ", sharing a core" : ""));
                        Stage stage(play, in_window ? 1 : 2);
                        REQUIRE(stage.play(many) == "");
                    }
}

TEST_CASE(
    "memory inside hosts and messages between them may mix in any order without a change of the result") {
    for (const Piece& piece : pieces())
        for (const bool in_window : {false, true}) {
            const Play play{.collective = piece.collective,
                            .schedule = piece.schedule,
                            .hosts = "aabb",
                            .in_window = in_window,
                            .root = 3};
            for (unsigned seed = 1; seed <= test::in_long_form(3u, 1u); ++seed) {
                INFO(text_of(play) << ", seed " << seed);
                Stage stage(play, seed);
                REQUIRE(stage.play(counts) == "");
            }
        }
}

TEST_CASE("tiles of a large start may overtake each other") {
    for (const bool in_place : {false, true})
        for (unsigned seed = 1; seed <= test::in_long_form(3u, 1u); ++seed) {
            Stage stage({.hosts = "aabb", .in_place = in_place}, seed);
            stage[0].begin(0, 300'000);
            CHECK(stage[0].tiles() > 2);
            Stage other({.hosts = "aabb", .in_place = in_place}, seed);
            CHECK(other.play({300'000, 9, 200'001}) == "");
        }
}

TEST_CASE("an input that is multiplied is multiplied once, whichever way it takes") {
    std::vector<std::uint64_t> counts = ::counts;
    counts.insert(counts.end(), {60'000, 40'000, 60'001});  // in tiles
    for (const char* hosts : {"abc", "aaa", "aab", "aa"})
        for (const Protocol protocol : {Protocol::bandwidth, Protocol::latency})
            for (const bool in_place : {false, true}) {
                const Play play{.schedule = "direct",
                                .hosts = hosts,
                                .op = ReduceOp::premul_sum,
                                .protocol = protocol,
                                .in_place = in_place};
                INFO(text_of(play));
                Stage stage(play, 3);
                CHECK(stage.play(counts) == "");
            }
}

TEST_CASE("compiled operations do in a run what interpreted ones do") {
    for (const char* hosts : {"abcd", "aaaa", "aabb"})
        for (const auto executor : {engine::ExecutorKind::automatic, test::compiled_if_any()}) {
            Stage stage({.hosts = hosts, .executor = executor}, 5);
            CHECK(stage.play(counts) == "");
        }
}

TEST_CASE("a rank that is alone is done with its own data, a budget at a time, and a count of 0 at once") {
    Stage stage({.schedule = "ring", .hosts = "a"});
    stage[0].begin(0, 0);
    CHECK(is_a<GraphRun>(stage[0].run()));
    CHECK(stage[0].is_done());
    CHECK_FALSE(stage[0].run().first_incomplete());
    CHECK(stage[0].end() == "");
    stage[0].begin(1, 1000);
    CHECK_FALSE(stage[0].is_done());
    CHECK(stage[0].run().first_incomplete() == 0);
    CHECK(stage[0].move());
    CHECK(stage[0].is_done());
    CHECK(stage[0].end() == "");
}

namespace {

std::size_t done_locally(test::Puppet& puppet) {
    const auto& ops = puppet.plan().program().ops;
    std::size_t done = 0;
    for (dsl::OpId id = 0; id < ops.size(); ++id)
        done += ops[id].is_elementwise() && puppet.run().is_complete(id);
    return done;
}

// The most operations on this rank's memory that were done in one step.
std::size_t most_at_once(std::uint64_t budget) {
    Stage stage({.collective = Collective::all_to_all, .schedule = "bruck", .hosts = "abcdefgh"}, 2);
    for (const auto& puppet : stage.puppets) puppet->begin(0, 1000);
    std::size_t most = 0;
    for (int round = 0; round < 1000; ++round)
        for (const auto& puppet : stage.puppets) {
            if (puppet->is_done()) continue;
            const std::size_t before = done_locally(*puppet);
            puppet->move(budget);
            most = std::max(most, done_locally(*puppet) - before);
        }
    for (const auto& puppet : stage.puppets) {
        CHECK(puppet->is_done());
        CHECK(puppet->end() == "");
    }
    return most;
}

}  // namespace

TEST_CASE("a run stops where its budget ends, and goes on from there") {
    CHECK(most_at_once(1) == 1);
    CHECK(most_at_once(3 * 8000 - 1) <= 3);
    CHECK(most_at_once(1 << 30) > 3);
}

TEST_CASE("a run tells the step that it waits for, and the rank that has not come") {
    {
        Stage stage({.hosts = "abc"});  // by messages
        stage[0].begin(0, 30), stage[1].begin(0, 30);
        stage.settle();
        CHECK_FALSE(stage[0].is_done());
        const auto op = stage[0].run().first_incomplete();
        REQUIRE(op);
        CHECK_FALSE(stage[0].run().is_complete(*op));
        CHECK(stage[0].plan().program().ops[*op].peer == 2);
        stage[2].begin(0, 30);
        stage.settle();
        for (std::size_t rank = 0; rank < 3; ++rank) CHECK(stage[rank].end() == "");
    }
    {
        Stage stage({.hosts = "aaa"});  // by memory
        stage[0].begin(0, 30'000), stage[1].begin(0, 30'000);
        CHECK(is_a<SharedRun>(stage[0].run()));
        stage.settle();
        CHECK_FALSE(stage[0].is_done());
        CHECK(stage[0].run().awaited_at_start() == 2);
        stage[2].begin(0, 30'000);
        stage.settle();
        for (std::size_t rank = 0; rank < 3; ++rank) CHECK(stage[rank].end() == "");
    }
}

TEST_CASE("a slot is used again only when all local peers are done with it") {
    // Rank 0 is the root of all starts, needs no other rank, and could run ahead.
    Stage roots({.collective = Collective::broadcast,
                 .schedule = "direct",
                 .hosts = "aaa",
                 .protocol = Protocol::latency});
    constexpr std::uint64_t slots = engine::LocalPeers::slots;
    for (std::uint64_t start = 0; start < slots; ++start) {
        roots[0].begin(start, 10);
        roots.settle();
        REQUIRE(roots[0].is_done());
        CHECK(roots[0].end() == "");
    }
    roots[0].begin(slots, 10);
    roots.settle();
    CHECK_FALSE(roots[0].is_done());
    CHECK(roots[0].run().awaited_at_start() == 1);
    for (const std::size_t late : {1, 2}) {
        CHECK_FALSE(roots[0].is_done());
        for (std::uint64_t start = 0; start < slots; ++start) {
            roots[late].begin(start, 10);
            roots.settle();
            REQUIRE(roots[late].is_done());
            CHECK(roots[late].end() == "");
        }
    }
    CHECK(roots[0].is_done());
    CHECK(roots[0].end() == "");
}

TEST_CASE("a local peer that has started something else is a disagreement, and nothing is written") {
    for (const char* hosts : {"aaa", "aab"})
        for (const bool in_window : {false, true}) {
            INFO(hosts);
            Stage stage({.schedule = "direct", .hosts = hosts, .in_window = in_window});
            stage[0].begin(0, 300, 77), stage[1].begin(0, 300, 78);
            stage.settle();
            for (const std::size_t rank : {0, 1}) {
                CHECK_FALSE(stage[rank].is_done());
                const auto& disagreement = stage[rank].run().disagreement();
                REQUIRE(disagreement);
                CHECK(disagreement->peer == static_cast<dsl::Rank>(1 - rank));
            }
        }
}

namespace {

bool run_small(test::Puppet& puppet, std::uint64_t number, std::uint64_t count,
               std::vector<std::int64_t>& out, std::uint32_t checksum = 77) {
    const auto input = puppet.input(number, count);
    out.assign(puppet.expected(number, count).size(), -1);
    return puppet.plan().small_run()->run(puppet.plan(), *puppet.local_peers(), count, input.data(),
                                          out.data(), 1, number, checksum);
}

const std::vector<Piece>& small_pieces() {
    using enum Collective;
    static const std::vector<Piece> pieces = {
        {all_reduce, "exchange"}, {all_gather, "direct"}, {reduce_scatter, "direct"}};
    return pieces;
}

Play small_play(const Piece& piece, const char* hosts = "aaa") {
    return {.collective = piece.collective,
            .schedule = piece.schedule,
            .hosts = hosts,
            .protocol = Protocol::latency};
}

}  // namespace

TEST_CASE("a small run is done at once where all have come, and else has done nothing that shows") {
    for (const Piece& piece : small_pieces()) {
        const Play play = small_play(piece);
        INFO(text_of(play));
        Stage stage(play);
        std::vector<std::int64_t> out;
        for (std::uint64_t number = 0; number < 20; ++number) {
            const std::uint64_t count = 1 + number * 37 % 300;
            for (std::size_t rank = 0; rank < 3; ++rank) REQUIRE(stage[rank].plan().small_run());
            // The first two start too early: they have shown their input, and written nothing.
            for (const std::size_t early : {0, 1}) {
                CHECK_FALSE(run_small(stage[early], number, count, out));
                CHECK(std::all_of(out.begin(), out.end(), [](std::int64_t value) { return value == -1; }));
            }
            for (const std::size_t rank : {2, 0, 1}) {
                CHECK(run_small(stage[rank], number, count, out));
                CHECK(out == stage[rank].expected(number, count));
            }
            for (std::size_t rank = 0; rank < 3; ++rank) stage[rank].local_peers()->complete(number + 1);
        }
    }
}

TEST_CASE("a rank in a small run meets ranks that take the general way") {
    for (const Piece& piece : small_pieces())
        for (const char* hosts : {"aaa", "aa"}) {
            const Play play = small_play(piece, hosts);
            INFO(text_of(play));
            Stage stage(play);
            std::vector<std::int64_t> out;
            for (std::uint64_t number = 0; number < 3 * engine::LocalPeers::slots; ++number) {
                for (std::size_t rank = 1; rank < stage.size(); ++rank) stage[rank].begin(number, 100);
                CHECK_FALSE(run_small(stage[0], number, 100, out));
                stage.settle();
                CHECK(stage[1].is_done());  // the memory that rank 0 has shown is enough
                CHECK(run_small(stage[0], number, 100, out));
                CHECK(out == stage[0].expected(number, 100));
                for (std::size_t rank = 1; rank < stage.size(); ++rank) CHECK(stage[rank].end() == "");
                stage[0].local_peers()->complete(number + 1);
            }
        }
}

TEST_CASE("a small run is not for what is empty, too large, or something else than a local peer's") {
    Stage stage({.schedule = "exchange", .hosts = "aa", .protocol = Protocol::latency});
    std::vector<std::int64_t> out;
    CHECK_FALSE(run_small(stage[0], 0, 0, out));
    CHECK_FALSE(run_small(stage[0], 0, engine::LocalPeers::least_tile_bytes / 8 + 1, out));
    run_small(stage[1], 0, 10, out, 78);
    CHECK_FALSE(run_small(stage[0], 0, 10, out));
    CHECK(out == std::vector<std::int64_t>(10, -1));
    // Not for messages either, nor for programs that combine in several steps.
    CHECK(
        Stage({.schedule = "exchange", .hosts = "ab", .protocol = Protocol::latency})[0].plan().small_run() ==
        nullptr);
    CHECK(Stage({.schedule = "ring", .hosts = "aaa", .protocol = Protocol::latency})[0].plan().small_run() ==
          nullptr);
}
