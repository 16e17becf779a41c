// Plans for a device, by their twins on the processor: the host's bits, however the work is divided.
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "tests/dsl/cases.hpp"
#include "tests/runtime/compute/jit/device_ranks.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using test::DeviceLaunch;
using test::DeviceRanks;

namespace {

std::vector<dsl::RankProgram> programs_of(const test::Case& item, const std::string& topology,
                                          dsl::Protocol protocol, dsl::Rank root) {
    auto request = test::request(item.collective, item.schedule, topology);
    const dsl::Rank ranks = dsl::check_schedule(request)->levels().ranks();
    request.hosts.assign(static_cast<std::size_t>(ranks), 0);
    request.protocol = protocol;
    request.root = contract_of(item.collective).has_root() ? root % ranks : 0;
    const auto checked = dsl::check_schedule(request);
    std::vector<dsl::RankProgram> programs;
    for (dsl::Rank rank = 0; rank < ranks; ++rank) programs.push_back(checked->project(rank));
    // Stripes of all ranks are the same elements only if these are the same.
    for (const dsl::RankProgram& program : programs) REQUIRE(program.boundaries == programs[0].boundaries);
    return programs;
}

// To compile a schedule's kernels takes most of the time. The usual form has one or more schedules of each
// collective. No other choice by turns has a period of seven, so that they have all that is chosen so.
bool is_taken(std::size_t number) {
    return test::is_long_form() || number % 7 == 6;
}

// The pairs in turn, so that many cases have all of them.
std::pair<DataType, ReduceOp> pair_of(std::size_t number) {
    static const auto pairs = [] {
        std::vector<std::pair<DataType, ReduceOp>> pairs;
        for (const DataType type : all_types)
            for (const ReduceOp op : all_ops)
                if (supports(op, type)) pairs.emplace_back(type, op);
        return pairs;
    }();
    return pairs[number * 37 % pairs.size()];
}

std::uint64_t most_stripes(const DeviceRanks& ranks) {
    std::uint64_t most = DeviceRanks::most_stripes;
    for (std::size_t r = 0; r < ranks.ranks(); ++r)
        most = std::min(most, jit::most_stripes_of(ranks.plan(r).program()));
    return most;
}

std::vector<DeviceRanks::Bytes> buffers_of(const DeviceRanks& ranks) {
    std::vector<DeviceRanks::Bytes> all;
    for (std::size_t r = 0; r < ranks.ranks(); ++r) all.push_back(ranks.buffers(r));
    return all;
}

int starts_by_packets = 0;

// Starts the same thing several times, each time divided in another way, some by packets.
void check_same_bits(DeviceRanks& ranks, std::uint64_t seed, int starts) {
    std::mt19937_64 random(seed);
    for (int start = 0; start < starts; ++start) {
        const std::uint64_t data = random();
        ranks.fill(data);
        ranks.run_by_host();
        const auto expected = buffers_of(ranks);
        ranks.fill(data);
        DeviceLaunch how{.stripes = 1 + random() % most_stripes(ranks),
                         .blocks = static_cast<std::uint32_t>(1 + random() % 3),
                         .threads = static_cast<std::uint32_t>(1 + random() % 3),
                         .seed = random()};
        if (ranks.can_go_by_packets() && random() % 2 == 0) {
            how.stripes = how.blocks = 1;
            how.by_packets = true;
            ++starts_by_packets;
        }
        INFO(fmt::format("start {}: {} stripes, {} blocks of {} threads{}", start, how.stripes, how.blocks,
                         how.threads, how.by_packets ? ", by packets" : ""));
        const std::uint64_t before = ranks.control(0).epoch;
        ranks.launch_all(how);
        for (std::size_t r = 0; r < ranks.ranks(); ++r) {
            INFO("rank " << r);
            REQUIRE(ranks.report(r).taken == 0);
            CHECK(ranks.control(r).epoch == before + 1);
            CHECK(ranks.control(r).ticket == 0);
            REQUIRE(ranks.buffers(r) == expected[r]);
        }
    }
}

// number: chooses the type, the operator, the count, the protocol and the buffers.
void check_case(const test::Case& item, const std::string& topology, std::size_t number) {
    const auto [type, op] = pair_of(number);
    const auto protocol = number % 3 == 0 ? dsl::Protocol::latency : dsl::Protocol::bandwidth;
    const bool in_place = number / 2 % 2 == 0, shifts_outputs = number % 4 == 1;
    constexpr std::uint64_t counts[] = {1, 5, 67, 515, 1031};
    const std::uint64_t count = counts[number % std::size(counts)];
    INFO(fmt::format("{} by '{}' on {}, {} of {}, {} elements, {}, {}", name_of(item.collective),
                     item.schedule, topology, name_of(op), name_of(type), count,
                     in_place ? "in place" : "out of place",
                     protocol == dsl::Protocol::latency ? "latency" : "bandwidth"));
    DeviceRanks ranks(programs_of(item, topology, protocol, static_cast<dsl::Rank>(number)), type, op, count,
                      in_place, nullptr, shifts_outputs);
    check_same_bits(ranks, number, 3);
}

}  // namespace

TEST_CASE("a kernel gives the host's bits, by every schedule of the library") {
    std::size_t number = 0;
    for (const test::Case& item : test::cases()) {
        // The topologies in turn.
        static const std::vector<std::string> small = {"3", "2x3", "4", "2"};
        const auto runs_on = [&](const std::string& topology) {
            return std::ranges::any_of(item.topologies, [&](const char* own) { return own == topology; });
        };
        for (std::size_t i = 0; i < small.size(); ++i) {
            const std::string& topology = small[(number + i) % small.size()];
            if (!runs_on(topology) || !is_taken(number)) continue;
            check_case(item, topology, number);
            break;
        }
        ++number;
    }
}

// ---- Operators ----------------------------------------------------------------------------------

TEST_CASE("a kernel combines by every operator, with every type") {
    const test::Case direct{dsl::Collective::all_reduce, "direct", {}};
    const auto programs = programs_of(direct, "2", dsl::Protocol::bandwidth, 0);
    const std::size_t ops = std::size(all_ops);
    const std::size_t one_of =
        test::in_long_form(std::size_t{1}, ops);  // that is each type, and each operator
    for (const DataType type : all_types)
        for (const ReduceOp op : all_ops) {
            if (!supports(op, type)) continue;
            if ((static_cast<std::size_t>(type) + ops - static_cast<std::size_t>(op)) % one_of != 0) continue;
            INFO(name_of(op) << " of " << name_of(type));
            DeviceRanks ranks(programs, type, op, 211, false);
            check_same_bits(ranks, 1, 1);
        }
}

TEST_CASE("a kernel combines by operators of schedule files") {
    using Item = dsl::Formula::Item;
    using Op = dsl::Formula::Op;
    const Item a{Op::element, 0}, b{Op::element, 1};
    const std::vector<std::vector<Item>> formulas = {
        {a, {Op::absolute}, b, {Op::absolute}, {Op::greater_equal}, a, b, {Op::select}},
        {b, {Op::number, 0, 0.3}, a, {Op::multiply}, {Op::subtract}},
        {a, b, {Op::multiply}, {Op::absolute}, {Op::square_root}, {Op::to_bfloat16}, a, {Op::divide}}};
    const test::Case ring{dsl::Collective::all_reduce, "ring", {}};
    int number = 0;
    for (const auto& formula : formulas)
        for (const DataType type :
             {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16}) {
            if (number++ % test::in_long_form(1, 3) != 0) continue;  // that is each formula, and each type
            const auto defined = std::make_shared<const dsl::Operator>(dsl::Operator{"own", {formula}});
            INFO(name_of(type));
            DeviceRanks ranks(programs_of(ring, test::in_long_form("3", "2"), dsl::Protocol::bandwidth, 0),
                              type, compute::Reduction(defined), 211, false);
            check_same_bits(ranks, 2, 2);
        }
}

TEST_CASE("a kernel applies a formula to what it has combined") {
    const test::TemporaryFolder folder;
    const std::string file = folder.path() + "/scaled.sched";
    std::ofstream(file) << "schedule scaled all_reduce(x) {\n"
                           "    reduce_scatter x over world using direct\n"
                           "    x = 0.3 * x\n"
                           "    all_gather x over world using direct\n"
                           "}\n";
    const test::Case scaled{dsl::Collective::all_reduce, file.c_str(), {}};
    const auto programs = programs_of(scaled, "3", dsl::Protocol::bandwidth, 0);
    for (const dsl::RankProgram& program : programs) {
        REQUIRE(!jit::why_no_device_kernel(program));
        CHECK(std::ranges::any_of(program.ops,
                                  [](const dsl::Op& op) { return op.epilogue != dsl::Op::no_epilogue; }));
    }
    for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
        DeviceRanks ranks(programs, type, ReduceOp::sum, 211, false);
        check_same_bits(ranks, 4, 2);
    }
}

TEST_CASE("a kernel combines more operands than are unrolled") {
    const test::Case direct{dsl::Collective::all_reduce, "direct", {}};
    for (const auto protocol : {dsl::Protocol::bandwidth, dsl::Protocol::latency}) {
        if (protocol == dsl::Protocol::latency && !test::is_long_form()) continue;
        DeviceRanks ranks(programs_of(direct, "18", protocol, 0), DataType::bfloat16, ReduceOp::average, 1000,
                          false);
        check_same_bits(ranks, 3, 1);
    }
}

// ---- Ranks that do not come ---------------------------------------------------------------------

namespace {

DeviceRanks four_ranks(dsl::Protocol protocol = dsl::Protocol::bandwidth) {
    const test::Case ring{dsl::Collective::all_reduce, "ring", {}};
    return DeviceRanks(programs_of(ring, "4", protocol, 0), DataType::float32, ReduceOp::sum, 100, false);
}

using Reason = jit::DeviceReport::Reason;
Reason reason_of(const DeviceRanks& ranks, std::size_t rank) {
    return static_cast<Reason>(ranks.report(rank).reason);
}

// Checks that the report names a wait of the rank's program, and a signal that was not reached.
void check_report(const DeviceRanks& ranks, std::size_t rank, std::uint64_t epoch) {
    const jit::DeviceReport& report = ranks.report(rank);
    const dsl::RankProgram& program = ranks.plan(rank).program();
    REQUIRE(report.taken == 1);
    REQUIRE(report.operation < program.ops.size());
    const dsl::Op& op = program.ops[report.operation];
    CHECK(op.kind == dsl::Op::Kind::await);
    REQUIRE(report.peer < program.local_peers.size());
    CHECK(op.peer == program.local_peers[report.peer]);
    CHECK(report.seen < jit::sequence_of(epoch, op.message));
}

}  // namespace

TEST_CASE("ranks give up at the deadline if one does not come, and say what they waited for") {
    for (const std::size_t absent : {0u, 2u}) {
        DeviceRanks ranks = four_ranks();
        ranks.fill(1);
        ranks.tick = 1000;
        for (std::size_t r = 0; r < 4; ++r) ranks.arguments(r).deadline = 1'000'000;
        std::vector<bool> who(4, false);
        who[absent] = true;
        ranks.launch_all({.stripes = 5, .blocks = 2, .threads = 2}, who);
        std::size_t at_deadline = 0, of_absent = 0;
        for (std::size_t r = 0; r < 4; ++r) {
            INFO("rank " << r << ", absent " << absent);
            // One that has not come is told, too.
            CHECK(ranks.control(r).abort == 1);
            if (r == absent) continue;
            check_report(ranks, r, 0);
            CHECK(ranks.control(r).epoch == 1);
            at_deadline += reason_of(ranks, r) == Reason::deadline;
            of_absent +=
                ranks.plan(r).program().local_peers[ranks.report(r).peer] == static_cast<dsl::Rank>(absent);
            CHECK((reason_of(ranks, r) == Reason::deadline || reason_of(ranks, r) == Reason::peer));
        }
        CHECK(at_deadline >= 1);
        CHECK(of_absent >= 1);
        // Comes when the others are gone, and does nothing.
        const auto before = ranks.buffers(absent);
        ranks.launch(absent, {.stripes = 5, .blocks = 2, .threads = 2});
        CHECK(ranks.report(absent).taken == 1);
        CHECK(reason_of(ranks, absent) == Reason::peer);
        CHECK(ranks.report(absent).operation == jit::DeviceReport::at_no_wait);
        CHECK(ranks.report(absent).peer == jit::DeviceReport::at_no_wait);
        CHECK(ranks.buffers(absent) == before);
    }
}

TEST_CASE("a rank may be late") {
    DeviceRanks ranks = four_ranks();
    ranks.fill(1);
    ranks.run_by_host();
    const auto expected = buffers_of(ranks);
    ranks.fill(1);
    const DeviceLaunch how{.stripes = 7, .blocks = 2, .threads = 2};
    std::thread others([&] { ranks.launch_all(how, {false, true, false, false}); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ranks.launch(1, how);
    others.join();
    CHECK(buffers_of(ranks) == expected);
}

TEST_CASE("the host makes a kernel give up, and the other ranks with it") {
    DeviceRanks ranks = four_ranks();
    ranks.fill(1);
    ranks.tick = 1000;
    ranks.host_abort(3) = 1;
    ranks.launch_all({.stripes = 3}, {true, false, false, false});
    CHECK(reason_of(ranks, 3) == Reason::host);
    check_report(ranks, 3, 0);
    // Whenever it has looked for that, it has told where it waits.
    const jit::DeviceReport& report = ranks.report(3);
    CHECK(report.waiting == jit::wait_of(report.operation, report.peer));
    CHECK(jit::operation_of_wait(report.waiting) == report.operation);
    for (const std::size_t r : {1u, 2u}) CHECK(reason_of(ranks, r) == Reason::peer);
}

TEST_CASE("ranks that start different things notice it") {
    DeviceRanks ranks = four_ranks();
    ranks.fill(1);
    ranks.arguments(2).identity = 12;
    ranks.launch_all({.stripes = 3, .blocks = 2});
    std::size_t differ = 0;
    for (std::size_t r = 0; r < 4; ++r) {
        REQUIRE(ranks.report(r).taken == 1);
        if (reason_of(ranks, r) != Reason::mismatch) continue;
        ++differ;
        const dsl::Rank peer = ranks.plan(r).program().local_peers[ranks.report(r).peer];
        CHECK((r == 2 || peer == 2));
        CHECK(ranks.report(r).seen == (r == 2 ? 4711u : 12u));
    }
    CHECK(differ >= 1);
}

namespace {

// Rank 1 is held at its n-th barrier until rank 0 has given up or ended, and rank 0's stream has gone on: it
// has made new inputs, and started again. Returns true if rank 1 comes that far.
bool check_late_rank(dsl::Protocol protocol, std::uint64_t barrier, int& at_no_wait) {
    const test::Case item{dsl::Collective::all_reduce, "direct", {}};
    DeviceRanks ranks(programs_of(item, "3", protocol, 0), DataType::float32, ReduceOp::sum, 101, false);
    ranks.fill(1);
    ranks.run_by_host();
    const auto expected = ranks.buffers(1);
    ranks.fill(1);
    ranks.tick = 1'000'000;
    std::atomic<bool> is_held = false, goes_on = false;
    ranks.at_barrier = [&](const test::AtBarrier& at) {
        if (at.rank != 1 || at.leaves || at.number != barrier || is_held.exchange(true)) return;
        ranks.host_abort(0) = 1;
        goes_on.wait(false);
    };
    std::thread others([&] { ranks.launch_all({}, {true, false, false}); });
    ranks.launch(0, {});
    const bool is_given_up = ranks.report(0).taken != 0;
    for (std::uint64_t start = 2; start < 4; ++start) {
        ranks.fill(0, start);
        if (is_given_up) ranks.launch(0, {});
    }
    goes_on = true;
    goes_on.notify_all();
    others.join();
    INFO(fmt::format("latency {}, held at barrier {}", protocol == dsl::Protocol::latency, barrier));
    if (ranks.report(1).taken == 0) CHECK(ranks.buffers(1) == expected);
    if (is_given_up) CHECK(ranks.report(1).taken == 1);
    at_no_wait += ranks.report(1).taken == 1 && ranks.report(1).operation == jit::DeviceReport::at_no_wait;
    return is_held;
}

}  // namespace

TEST_CASE("a rank that another one has left says so, though it has waited in vain for nothing") {
    for (const auto protocol : {dsl::Protocol::bandwidth, dsl::Protocol::latency}) {
        int at_no_wait = 0;
        for (std::uint64_t n = 0; check_late_rank(protocol, n, at_no_wait); ++n) continue;
        CHECK(at_no_wait >= 1);
    }
}

TEST_CASE("a block gives up as one, however late a thread sees it") {
    const test::Case chain{dsl::Collective::broadcast, "chain", {}};
    const auto programs = programs_of(chain, "4", dsl::Protocol::bandwidth, 0);
    // Rank 2 waits for the second chunk right after it has copied the first, and rank 1 never gives it.
    constexpr std::uint64_t before_second_chunk = 6;
    for (const std::uint64_t barrier : {2u, 3u}) {  // behind the signal before the first chunk, and the waits
        INFO("late at barrier " << barrier);
        DeviceRanks ranks(programs, DataType::float32, ReduceOp::sum, 100, false);
        ranks.fill(1);
        ranks.tick = 1'000'000;
        for (std::size_t r = 0; r < 4; ++r) ranks.arguments(r).deadline = 500'000'000;
        std::atomic<std::uint64_t> reached = 0;  // by thread 0 of rank 2
        std::atomic<bool> has_ended = false;     // rank 2
        ranks.at_barrier = [&](const test::AtBarrier& at) {
            if (at.rank == 1 && !at.leaves && at.number == before_second_chunk) has_ended.wait(false);
            if (at.rank != 2) return;
            if (at.thread == 0 && !at.leaves) {
                reached = at.number;
                reached.notify_all();
            }
            // Thread 1 leaves the barrier when thread 0 has come to the next one.
            if (at.thread == 1 && at.leaves && at.number == barrier) {
                ranks.host_abort(2) = 1;
                reached.wait(barrier);
            }
        };
        std::thread others([&] { ranks.launch_all({.threads = 2}, {false, false, true, false}); });
        ranks.launch(2, {.threads = 2});
        has_ended = true;
        has_ended.notify_all();
        others.join();
        for (std::size_t r = 0; r < 4; ++r) CHECK(ranks.report(r).taken == 1);
        CHECK(reason_of(ranks, 2) == Reason::host);
        CHECK(!ranks.barriers_differ());
    }
}

TEST_CASE("ranks that divide a start in another way notice it") {
    DeviceRanks ranks = four_ranks();
    ranks.fill(1);
    ranks.tick = 1000;
    for (std::size_t r = 0; r < 4; ++r) ranks.arguments(r).deadline = 1'000'000;
    std::thread others([&] { ranks.launch_all({.stripes = 3}, {false, false, true, false}); });
    ranks.launch(2, {.stripes = 5});
    others.join();
    std::size_t differ = 0;
    for (std::size_t r = 0; r < 4; ++r) {
        CHECK(ranks.report(r).taken == 1);
        differ += reason_of(ranks, r) == Reason::mismatch;
    }
    CHECK(differ >= 1);
}

// ---- Replays ------------------------------------------------------------------------------------

TEST_CASE("kernels replay with the same arguments, while some ranks are ahead") {
    constexpr int replays = 25;
    int number = 0;
    for (const char* schedule : {"ring", "direct", "exchange"}) {
        ++number;
        for (const auto protocol : {dsl::Protocol::bandwidth, dsl::Protocol::latency}) {
            if (number++ % test::in_long_form(1, 2) != 0) continue;  // usually, by turns
            for (const bool in_place : {false, true}) {
                INFO(schedule << ", latency " << (protocol == dsl::Protocol::latency) << ", in place "
                              << in_place);
                const test::Case item{dsl::Collective::all_reduce, schedule, {}};
                DeviceRanks ranks(programs_of(item, "3", protocol, 0), DataType::float32, ReduceOp::sum, 101,
                                  in_place);
                std::vector<std::vector<DeviceRanks::Bytes>> expected;
                for (int replay = 0; replay < replays; ++replay) {
                    ranks.fill(static_cast<std::uint64_t>(replay));
                    ranks.run_by_host();
                    expected.push_back(buffers_of(ranks));
                }
                std::atomic<int> wrong = 0;
                std::vector<std::thread> streams;
                for (std::size_t r = 0; r < ranks.ranks(); ++r)
                    streams.emplace_back([&, r] {
                        for (int replay = 0; replay < replays; ++replay) {
                            ranks.fill(r, static_cast<std::uint64_t>(replay));
                            DeviceLaunch how{.stripes = static_cast<std::uint64_t>(1 + replay % 4),
                                             .blocks = 2,
                                             .seed = static_cast<std::uint64_t>(replay)};
                            if (replay % 5 < 3 && ranks.can_go_by_packets())
                                how = {.threads = 2, .seed = how.seed, .by_packets = true};
                            ranks.launch(r, how);
                            wrong += ranks.buffers(r) != expected[static_cast<std::size_t>(replay)][r];
                        }
                    });
                for (std::thread& stream : streams) stream.join();
                CHECK(wrong == 0);
                for (std::size_t r = 0; r < ranks.ranks(); ++r) CHECK(ranks.control(r).epoch == replays);
            }
        }
    }
}

// ---- Packets ------------------------------------------------------------------------------------

namespace {

// Programs that need nothing of other ranks but their inputs, from each of them.
std::vector<test::Case> one_shot() {
    return {{dsl::Collective::all_reduce, "exchange", {}},
            {dsl::Collective::all_gather, "direct", {}},
            {dsl::Collective::reduce_scatter, "direct", {}},
            {dsl::Collective::all_to_all, "direct", {}}};
}

DeviceRanks four_ranks_by_packets() {
    return DeviceRanks(programs_of(one_shot()[0], "4", dsl::Protocol::latency, 0), DataType::float32,
                       ReduceOp::sum, 100, false);
}

}  // namespace

TEST_CASE("starts by packets give the host's bits, in turn with starts by lines") {
    std::size_t number = 0;
    const int before = starts_by_packets;
    for (const test::Case& item : one_shot())
        for (const char* topology : {"2", "3", "5"})
            for (const std::uint64_t count : {1u, 3u, 37u, 514u}) {
                ++number;
                if (number % test::in_long_form(1u, 7u) != 0) continue;
                const auto [type, op] = pair_of(number);
                INFO(fmt::format("{} by {} on {}, {} of {}, {} elements", name_of(item.collective),
                                 item.schedule, topology, name_of(op), name_of(type), count));
                DeviceRanks ranks(programs_of(item, topology, dsl::Protocol::latency, 0), type, op, count,
                                  number % 2 == 0, nullptr, number % 3 == 0);
                REQUIRE(ranks.can_go_by_packets());
                // Numbers of starts come around, and packets are cleared, at some of these epochs.
                for (const std::uint64_t epoch : {std::uint64_t{0}, jit::clearing_period - 3,
                                                  jit::packet_starts - 3, 2 * jit::packet_starts - 3}) {
                    ranks.set_epoch(epoch);
                    check_same_bits(ranks, number + epoch, test::in_long_form(5, 4));
                }
            }
    CHECK(starts_by_packets - before >= 20);
}

TEST_CASE("schedules that need more of other ranks than their inputs do not go by packets") {
    for (const test::Case& item : {test::Case{dsl::Collective::all_reduce, "ring", {}},
                                   test::Case{dsl::Collective::all_reduce, "double_tree", {}},
                                   test::Case{dsl::Collective::broadcast, "direct", {}},
                                   test::Case{dsl::Collective::reduce, "direct", {}}}) {
        INFO(name_of(item.collective) << " by " << item.schedule);
        const DeviceRanks ranks(programs_of(item, "4", dsl::Protocol::latency, 0), DataType::float32,
                                ReduceOp::sum, 10, false);
        CHECK(!ranks.can_go_by_packets());
    }
}

TEST_CASE("packets of a larger start are never taken for those of a later one") {
    DeviceRanks ranks = four_ranks_by_packets();
    REQUIRE(ranks.can_go_by_packets());
    ranks.fill(1);
    const DeviceLaunch how{.threads = 2, .by_packets = true};
    for (int start = 0; start < 2; ++start) ranks.launch_all(how);
    CHECK(!ranks.has_clear_packets());
    // Also by a start that goes by lines, in several blocks.
    ranks.set_epoch(jit::clearing_period - 2);
    ranks.launch_all({.stripes = 3, .blocks = 2});
    CHECK(!ranks.has_clear_packets());
    ranks.launch_all({.stripes = 3, .blocks = 2});
    CHECK(ranks.has_clear_packets());
    for (std::size_t r = 0; r < 4; ++r) CHECK(ranks.report(r).taken == 0);
}

TEST_CASE("a rank whose memory has no room for packets clears none") {
    DeviceRanks ranks = four_ranks_by_packets();
    ranks.fill(1);
    for (int start = 0; start < 2; ++start) ranks.launch_all({.threads = 2, .by_packets = true});
    for (std::size_t r = 0; r < 4; ++r) ranks.arguments(r).most_packets = 0;
    ranks.set_epoch(jit::clearing_period - 2);
    for (int start = 0; start < 2; ++start) ranks.launch_all({.stripes = 3, .blocks = 2});
    CHECK(!ranks.has_clear_packets());
    CHECK(ranks.control(0).epoch == jit::clearing_period);
}

TEST_CASE("ranks that wait for packets in vain give up, and say for which rank and step") {
    enum class How : std::uint8_t { absent, host, late };
    for (const How how : {How::absent, How::host, How::late}) {
        INFO(static_cast<int>(how));
        DeviceRanks ranks = four_ranks_by_packets();
        ranks.fill(1);
        ranks.run_by_host();
        const auto expected = buffers_of(ranks);
        ranks.fill(1);
        const DeviceLaunch launch{.threads = 3, .by_packets = true};
        if (how != How::late) ranks.tick = 1000;
        if (how == How::host) ranks.host_abort(3) = 1;
        if (how == How::absent)
            for (std::size_t r = 0; r < 4; ++r) ranks.arguments(r).deadline = 1'000'000;
        std::thread others([&] { ranks.launch_all(launch, {false, true, false, false}); });
        if (how == How::late) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            ranks.launch(1, launch);
        }
        others.join();
        if (how == How::late) {
            CHECK(buffers_of(ranks) == expected);
            continue;
        }
        bool is_said = false;
        for (const std::size_t r : {0u, 2u, 3u}) {
            check_report(ranks, r, 0);
            CHECK(ranks.plan(r).program().local_peers[ranks.report(r).peer] == 1);
            is_said = is_said || reason_of(ranks, r) == (how == How::host ? Reason::host : Reason::deadline);
        }
        CHECK(is_said);
        CHECK(ranks.control(1).abort == 1);
    }
}

TEST_CASE("a rank that is a start ahead leaves the packets of the last one alone") {
    constexpr std::size_t late = 1;
    for (const std::uint64_t epoch : {0u, 1u}) {
        INFO("epoch " << epoch);
        DeviceRanks ranks = four_ranks_by_packets(), by_host = four_ranks_by_packets();
        ranks.set_epoch(epoch);
        ranks.fill(0);
        for (std::size_t r = 0; r < 4; ++r) ranks.arguments(r).deadline = 5'000'000'000;
        // The late rank has sent its packets, and finds none before all others wait for those of its next
        // start.
        std::atomic<bool> has_sent = false, were_ahead = false;
        std::array<std::atomic<int>, 4> start{};
        std::array<std::atomic<bool>, 4> waits{};
        const auto others_wait = [&] { return waits[0] && waits[2] && waits[3]; };
        ranks.at_poll = [&](std::size_t rank) {
            if (rank != late) {
                if (start[rank] == 1) waits[rank] = true;
                return;
            }
            has_sent = true;
            if (start[late] == 0) were_ahead = test::eventually(others_wait, std::chrono::seconds(3));
        };
        std::vector<DeviceRanks::Bytes> results(8);
        std::vector<std::thread> streams;
        for (std::size_t r = 0; r < 4; ++r)
            streams.emplace_back([&, r] {
                while (r != late && !has_sent) std::this_thread::yield();
                for (; start[r] < 2; ++start[r]) {
                    const auto number = static_cast<std::size_t>(start[r]);
                    ranks.fill(r, number);
                    ranks.launch(r, {.by_packets = true});
                    results[number * 4 + r] = ranks.buffers(r);
                }
            });
        for (std::thread& stream : streams) stream.join();
        CHECK(were_ahead);
        for (std::size_t number = 0; number < 2; ++number) {
            by_host.fill(number);
            by_host.run_by_host();
            for (std::size_t r = 0; r < 4; ++r) CHECK(results[number * 4 + r] == by_host.buffers(r));
        }
        for (std::size_t r = 0; r < 4; ++r) CHECK(ranks.report(r).taken == 0);
    }
}

TEST_CASE("ranks that start different things by packets notice it, also if one of them goes by lines") {
    for (const bool is_by_lines : {false, true}) {
        INFO("by lines " << is_by_lines);
        DeviceRanks ranks = four_ranks_by_packets();
        ranks.fill(1);
        ranks.arguments(2).identity = 12;
        std::thread others([&] {
            ranks.launch_all({.threads = 2, .by_packets = true}, {false, false, true, false});
        });
        if (is_by_lines)
            ranks.launch(2, {.stripes = 3, .blocks = 2});
        else
            ranks.launch(2, {.by_packets = true});
        others.join();
        std::size_t differ = 0;
        for (std::size_t r = 0; r < 4; ++r) {
            REQUIRE(ranks.report(r).taken == 1);
            differ += reason_of(ranks, r) == Reason::mismatch;
            CHECK(reason_of(ranks, r) != Reason::deadline);
        }
        CHECK(differ >= 1);
    }
}

// ---- Order --------------------------------------------------------------------------------------

TEST_CASE("barriers of a block order nothing of a later one at the same address") {
    test::RaceWatcher watcher;
    const int block = 0, data = 0;
    watcher.write(1, &data, sizeof data);
    watcher.arrive(1, &block, 0);
    watcher.leave(1, &block, 0);
    watcher.end_block(&block);
    watcher.arrive(2, &block, 0);
    watcher.leave(2, &block, 0);
    watcher.read(2, &data, sizeof data);
    CHECK(watcher.race().find("agent 2 reads what is written") == 0);
}

TEST_CASE("a step waits for what other threads of its block have made just before") {
    // Two copies of half of x each, and one of all that they have written, with nothing between.
    dsl::RankProgram program;
    program.collective = dsl::Collective::all_reduce;
    program.schedule = "by hand";
    program.boundaries = {dsl::Rational(0), dsl::Rational(1, 3), dsl::Rational(1)};
    program.chunks = 3;
    program.uses_work = true;
    program.origins = {{"by hand:1", "", ""}};
    using Kind = dsl::Op::Kind;
    program.ops = {{.kind = Kind::copy,
                    .begin = 0,
                    .end = 1,
                    .area = dsl::work_area,
                    .operands = {dsl::input_area},
                    .successors = {2}},
                   {.kind = Kind::copy,
                    .begin = 1,
                    .end = 2,
                    .area = dsl::work_area,
                    .operands = {dsl::input_area},
                    .successors = {2}},
                   {.kind = Kind::copy,
                    .begin = 0,
                    .end = 2,
                    .area = dsl::output_area,
                    .operands = {dsl::work_area},
                    .waits_for = 2}};
    test::RaceWatcher watcher;
    DeviceRanks ranks({program}, DataType::float32, ReduceOp::sum, 300, false, &watcher);
    ranks.fill(1);
    ranks.launch(0, {.threads = 3});
    CHECK(watcher.race() == "");
    ranks.launch(0, {.stripes = 2, .blocks = 2, .threads = 3});
    CHECK(watcher.race() == "");
    CHECK(ranks.report(0).taken == 0);
}

TEST_CASE("no two threads touch the same memory unordered, in several starts") {
    // Each of two stripes has whole vectors of most atoms.
    constexpr std::uint64_t elements = 300;
    std::size_t number = 0;
    for (const test::Case& item : test::cases()) {
        if (std::ranges::none_of(item.topologies, [](const char* name) { return std::string(name) == "4"; }))
            continue;
        if (!is_taken(number++)) continue;
        const auto protocol = number % 2 == 0 ? dsl::Protocol::latency : dsl::Protocol::bandwidth;
        const bool in_place = number % 3 == 0;
        INFO(name_of(item.collective)
             << " by '" << item.schedule << "', latency " << (number % 2 == 0) << ", in place " << in_place);
        test::RaceWatcher watcher;
        DeviceRanks ranks(programs_of(item, "4", protocol, static_cast<dsl::Rank>(number)), DataType::int16,
                          ReduceOp::sum, elements, in_place, &watcher, number % 4 == 1);
        ranks.fill(number);
        std::vector<std::thread> streams;
        for (std::size_t r = 0; r < ranks.ranks(); ++r)
            streams.emplace_back([&, r] {
                for (std::uint64_t start = 0; start < 4; ++start) {
                    ranks.fill(r, number + start);
                    // A single stripe is of all atoms at once, so threads divide each region in another way.
                    DeviceLaunch how{.stripes = std::min(1 + start % 2, most_stripes(ranks)),
                                     .blocks = 2,
                                     .threads = 2,
                                     .seed = number + start};
                    if (start != 1 && ranks.can_go_by_packets())
                        how = {.threads = 2, .seed = how.seed, .by_packets = true};
                    ranks.launch(r, how);
                    ranks.buffers(r);
                }
            });
        for (std::thread& stream : streams) stream.join();
        CHECK(watcher.race() == "");
    }
}
