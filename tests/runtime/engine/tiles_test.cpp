// Large starts between hosts: ranks of one machine that count as several hosts (HOCKET_HOST_ID), with real
// memory and real messages.
#include "runtime/engine/run/tiles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <random>
#include <regex>
#include <thread>

#include "runtime/engine/communicator.hpp"
#include "runtime/engine/reports/failure.hpp"
#include "tests/runtime/engine/failures.hpp"
#include "tests/runtime/engine/programs.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace std::chrono_literals;
using dsl::Collective;
using engine::Communicator;
using engine::Execution;
using engine::Start;
using test::expect;
using test::expect_contains;
using test::failure_of;

namespace {

constexpr std::uint64_t KiB = 1024;

std::unique_ptr<Communicator> join(const std::string& hosts, int rank) {
    setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
    return Communicator::create(engine::resolve({}));
}

std::vector<std::int64_t> numbers(std::uint64_t count, int rank) {
    std::vector<std::int64_t> values(count);
    for (std::uint64_t i = 0; i < count; ++i) values[i] = static_cast<std::int64_t>(i * 7) + 1000 * rank;
    return values;
}

void expect_sum(const std::int64_t* values, std::uint64_t count, int ranks, const std::string& what) {
    for (std::uint64_t i = 0; i < count; ++i)
        expect(values[i] == static_cast<std::int64_t>(i * 7) * ranks + 500 * ranks * (ranks - 1),
               [&] { return fmt::format("{}: element {} of {} is {}", what, i, count, values[i]); });
}

std::shared_ptr<engine::StartablePlan> plan_of(Communicator& comm, std::uint64_t count,
                                               Collective collective = Collective::all_reduce, int root = 0) {
    return comm.plans().cached_plan({.collective = collective, .type = DataType::int64, .root = root}, count);
}

// The chunk of `chunks` that an element of `count` is in.
std::uint64_t chunk_of(std::uint64_t element, std::uint64_t count, std::uint64_t chunks) {
    std::uint64_t chunk = 0;
    while ((chunk + 1) * count / chunks <= element) ++chunk;
    return chunk;
}

struct Divided {
    std::shared_ptr<engine::StartablePlan> plan;

    explicit Divided(dsl::RankProgram program, bool memory_is_shared = true) {
        program.memory_is_shared = memory_is_shared;
        plan = engine::StartablePlan::make(std::move(program), DataType::float32, ReduceOp::sum,
                                           engine::ExecutorKind::interpreter);
    }
    Start operator()(std::uint64_t bytes) const {
        Start start{.plan = plan.get(), .count = bytes / 4};
        engine::divide(start);
        return start;
    }
};

}  // namespace

TEST_CASE("large starts are divided on cache lines, and the tiles make the whole") {
    const Divided divided(test::ring_all_reduce(1, 4));
    CHECK(divided(0).tiles() == 1);
    CHECK(divided(512 * KiB - 4).tiles() == 1);
    CHECK(divided(512 * KiB).tiles() == 2);
    for (const std::uint64_t bytes :
         {512 * KiB, 768 * KiB + 4, 1000 * KiB - 12, 3000 * KiB, 65536 * KiB, 120000 * KiB + 20}) {
        const Start start = divided(bytes);
        INFO(bytes);
        CHECK(start.tiles() >= 2);
        CHECK(start.tiles() <= engine::LocalPeers::slots);
        CHECK(start.tiling.chunks() == 4);
        std::uint64_t elements = 0;
        for (std::uint64_t tile = 0; tile < start.tiles(); ++tile) {
            CHECK(start.tiling.elements_of(tile) > 0);
            const bool is_last = tile + 1 == start.tiles();
            CHECK((is_last || start.tiling.elements_of(tile) * 4 % (4 * 64) == 0));
            elements += start.tiling.elements_of(tile);
        }
        CHECK(elements == start.count);
    }
}

TEST_CASE("each element is in one tile, and in the same chunk of it as of the whole") {
    std::mt19937_64 random(1);
    const auto up_to = [&](std::uint64_t most) { return 1 + random() % most; };
    for (unsigned round = 0; round < 300; ++round) {
        const std::uint64_t count = up_to(3000), chunks = up_to(40), stretch = up_to(70);
        const engine::Tiling tiling(count, chunks, stretch);
        INFO(count << " elements, " << chunks << " chunks, " << stretch << " of each");
        std::vector<int> seen(count, 0);
        for (std::uint64_t tile = 0; tile < tiling.tiles(); ++tile) {
            const dsl::Rational whole(1);
            std::uint64_t end = 0;
            engine::Tile(tiling, tile, 1)
                .for_stretches(dsl::Rational(0), whole,
                               [&](std::uint64_t in_tile, std::uint64_t in_x, std::uint64_t length) {
                                   REQUIRE(in_tile == end);
                                   end += length;
                                   for (std::uint64_t i = 0; i < length; ++i) {
                                       REQUIRE(in_x + i < count);
                                       ++seen[in_x + i];
                                       if (!tiling.is_whole())
                                           REQUIRE(chunk_of(in_x + i, count, chunks) ==
                                                   chunk_of(in_tile + i, tiling.elements_of(tile), chunks));
                                   }
                               });
            REQUIRE(end == tiling.elements_of(tile));
        }
        CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
    }
}

TEST_CASE("tiles are not so small that their messages are") {
    CHECK(Divided(test::ring_all_reduce(1, 64))(4096 * KiB).tiles() == 2);
}

TEST_CASE("there are no more tiles than may be in flight together") {
    dsl::RankProgram chatty = test::ring_all_reduce(1, 4);
    chatty.most_messages = 100;
    CHECK(Divided(chatty)(64 << 20).tiles() == 2);
    chatty.most_messages = 200;
    CHECK(Divided(chatty)(64 << 20).tiles() == 1);
}

TEST_CASE("where no memory is shared, or x is several pieces, a start stays whole") {
    CHECK(Divided(test::ring_all_reduce(1, 4), false)(64 << 20).tiles() == 1);
    dsl::RankProgram gather = test::ring_all_reduce(1, 4);
    gather.collective = Collective::all_gather;
    CHECK(Divided(std::move(gather))(64 << 20).tiles() == 1);
    CHECK(Divided(test::flat_broadcast(1, 4, 0))(64 << 20).tiles() > 1);
}

TEST_CASE("what a tile does is told in elements of the whole") {
    const Divided divided(test::ring_all_reduce(1, 4));
    const Start start = divided(1024 * KiB);
    REQUIRE(start.tiles() == 4);
    Execution& first = engine::begin_tiles(*divided.plan, start, nullptr);
    const Execution& third = *first.next_tile()->next_tile();
    REQUIRE(third.plan().program().ops[0].kind == dsl::Op::Kind::send);
    // The third quarter of the first quarter of 262144 elements.
    CHECK_THAT(engine::describe(third, 0), Catch::Contains("of tile 3 of 4 (elements 32768 to 49151)"));
    CHECK_THAT(engine::describe(third), Catch::Contains("262144 elements"));
    engine::give_back(first);
}

TEST_CASE("what a message of several parts moves is told part by part, without those that are empty") {
    const Divided divided(test::broadcast_in_parts(0, 2, 0));
    const auto told = [&](std::uint64_t count) {
        Execution& execution = engine::begin_tiles(*divided.plan, divided(4 * count), nullptr);
        const std::string text = engine::describe(execution, 1);
        engine::give_back(execution);
        return text;
    };
    CHECK_THAT(told(14), Catch::Contains("sending x[4/7, 1), x[0, 1/7), x[3/7, 4/7), x[1/7, 3/7) "
                                         "(elements 8 to 13, 0 to 1, 6 to 7, 2 to 5) to rank 1"));
    CHECK_THAT(told(2), Catch::Contains("sending x[4/7, 1), x[3/7, 4/7) (elements 1, 0) to rank 1"));
}

TEST_CASE("tiles of any count give the whole result, in and out of place, wherever the buffers are") {
    struct Case {
        const char *hosts, *schedule;
    };
    for (const Case& c : {Case{"aabb", ""},
                          {"aab", ""},
                          {"aabbcc", "blueconnect"},
                          {"abab", "ring"},
                          {"aabb", "halving"},
                          {"aabbc", "exchange"}}) {
        const int ranks = static_cast<int>(std::string(c.hosts).size());
        const auto outcomes = test::run_ranks({ranks, {{"HOCKET_SCHEDULE", c.schedule}}, 120}, [&](int rank) {
            const auto comm = join(c.hosts, rank);
            for (const std::uint64_t count : {65536, 65537, 100003, 70001, 262139, 300000}) {
                const auto reduce = plan_of(*comm, count);
                const auto broadcast = plan_of(*comm, count, Collective::broadcast, ranks - 1);
                const auto send = numbers(count, rank);
                std::vector<std::int64_t> recv(count, -1);
                comm->run(reduce, send.data(), recv.data(), count);
                expect_sum(recv.data(), count, ranks, "out of place");
                expect(send == numbers(count, rank), "the send buffer was written to");
                recv = send;
                comm->progress().wait(comm->start(reduce, recv.data(), recv.data(), count));
                expect_sum(recv.data(), count, ranks, "in place");
                comm->run(broadcast, send.data(), recv.data(), count);
                expect(recv == numbers(count, ranks - 1), fmt::format("broadcast of {}", count));
                // The odd ranks' buffers lie where local peers reach them.
                auto* shared = static_cast<std::int64_t*>(comm->connections().window().allocate(count * 8));
                std::int64_t* mixed = rank % 2 ? shared : recv.data();
                std::copy(send.begin(), send.end(), mixed);
                comm->run(reduce, mixed, mixed, count);
                expect_sum(mixed, count, ranks, "in both kinds of memory");
                comm->connections().window().release(shared);
            }
        });
        INFO(c.hosts << " " << c.schedule);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("large and small starts may be in flight together, and end in any order") {
    const auto outcomes = test::run_ranks({4, {}, 120}, [](int rank) {
        const auto comm = join("aabb", rank);
        const std::uint64_t counts[] = {200000, 10, 65536, 300001, 1000, 131072, 7, 500000};
        constexpr int flights = 8;
        for (int round = 0; round < 5; ++round) {
            std::vector<std::vector<std::int64_t>> data;
            std::vector<Execution*> started;
            for (const std::uint64_t count : counts) data.push_back(numbers(count, rank));
            for (int i = 0; i < flights; ++i)
                started.push_back(
                    &comm->start(plan_of(*comm, counts[i]), data[i].data(), data[i].data(), counts[i]));
            // Every rank in another order, some by polling.
            for (int k = 0; k < flights; ++k) {
                const int i = rank == 0 ? k : rank == 1 ? flights - 1 - k : (k * 5 + rank) % flights;
                if (k % 2)
                    comm->progress().wait(*started[i]);
                else
                    while (!comm->progress().test(*started[i])) std::this_thread::yield();
                expect_sum(data[i].data(), counts[i], 4, fmt::format("start {} of round {}", i, round));
            }
        }
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("counts that differ are a mismatch of whole starts, whether both are divided or one") {
    for (const std::uint64_t other : {100u, 299999u, 600000u}) {
        const auto outcomes =
            test::run_ranks({4, {{"HOCKET_TIMEOUT_MS", "5000"}, {"HOCKET_SCHEDULE", "ring"}}}, [&](int rank) {
                const auto comm = join("aabb", rank);
                auto data = numbers(600000, rank);
                const std::uint64_t count = rank == 3 ? other : 300000;
                const auto plan = plan_of(*comm, count);
                const auto text = failure_of([&] {
                    // Tiles before it, so that sequence numbers and numbers of starts differ.
                    comm->run(plan_of(*comm, 300000), data.data(), data.data(), 300000);
                    comm->run(plan, data.data(), data.data(), count);
                });
                const auto own = fmt::format("all_reduce #1 (ring on {}, int64 sum, {} elements)",
                                             comm->options().topology, count);
                expect_contains(text, {"-8:", "started different operations"});
                // A rank that another one tells may not have begun the operation, or may still be in the
                // previous one.
                const auto has = [&](const char* words) { return text.find(words) != std::string::npos; };
                if (!has("was between operations") && !has("was in all_reduce #0"))
                    expect_contains(text, {own.c_str()});
                expect(!std::regex_search(text, std::regex("#([2-9]|1[0-9])")), "of no start: " + text);
            });
        INFO(other);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("a rank that does not come is a timeout that tells the tile") {
    const test::Tally ended;
    const auto outcomes = test::run_ranks({4, {{"HOCKET_SCHEDULE", "ring"}}}, [&](int rank) {
        setenv("HOCKET_TIMEOUT_MS", "3000", 1);
        const auto comm = join("aabb", rank);
        auto data = numbers(300000, rank);
        comm->run(plan_of(*comm, 300000), data.data(), data.data(), 300000);
        if (rank == 3) return ended.await(3);
        const auto text =
            failure_of([&] { comm->run(plan_of(*comm, 300000), data.data(), data.data(), 300000); });
        ended.add();
        expect_contains(text, {"-7:", "all_reduce #1 (ring on", "300000 elements"});
        if (rank == 1) expect_contains(text, {"of tile 1 of 8"});
        expect(text.find("later operations") == std::string::npos, "tiles were counted as starts: " + text);
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("a rank that dies between two tiles ends the start on all others") {
    const test::Tally met;
    const auto outcomes = test::run_ranks({4, {}}, [&](int rank) {
        const auto comm = join("aabb", rank);
        constexpr std::uint64_t count = 4'000'000;
        auto data = numbers(count, rank);
        const auto plan = plan_of(*comm, count);
        comm->run(plan, data.data(), data.data(), count);
        const auto text = failure_of([&] {
            Execution& execution = comm->start(plan, data.data(), data.data(), count);
            met.meet(4);  // all are in this start when one dies
            if (rank == 2) {
                // Once some data have come from the others, but not all.
                const auto before = data;
                while (data == before)
                    if (comm->progress().test(execution)) expect(false, "it was over too soon");
                raise(SIGKILL);
            }
            comm->progress().wait(execution);
        });
        expect_contains(text, {"-6:", "rank 2 was lost", "all_reduce #1"});
        expect_contains(failure_of([&] { comm->exchanges().barrier(); }), {"-6:"});
    });
    CHECK(outcomes[2].signal == SIGKILL);
    for (const int survivor : {0, 1, 3}) CHECK(outcomes[survivor].text == "");
}
