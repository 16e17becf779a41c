// Whole communicators: real schedules, real processes, real fabrics, both executors.
#include "runtime/engine/communicator.hpp"

#include <fmt/format.h>

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>
#include <utility>

#include "tests/runtime/engine/extents.hpp"
#include "tests/runtime/engine/failures.hpp"
#include "tests/runtime/engine/programs.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace std::chrono_literals;
using dsl::Collective;
using engine::Communicator;
using engine::ExecutorKind;
using engine::PlanChoice;
using test::expect;
using test::expect_contains;
using test::failure_of;
using test::run_ranks;

namespace {

thread_local bool next_allocation_fails = false;

// After 10 s a missed heartbeat reveals a failure too, so a later error does not show that anyone reported
// it.
constexpr double too_late_ms = 8000;

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return std::exchange(next_allocation_fails, false) ? nullptr : std::malloc(bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
    if (void* memory = operator new(bytes, std::nothrow)) return memory;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
    std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace {

template <typename T>
constexpr DataType type_of() {
    if (std::is_same_v<T, float>) return DataType::float32;
    if (std::is_same_v<T, double>) return DataType::float64;
    return std::is_same_v<T, std::int32_t> ? DataType::int32 : DataType::int64;
}

constexpr std::uint64_t period = 2003;  // of value() by index

// Differs by rank and index; in floating point, sums of these are rounded, so that the order shows.
template <typename T>
T value(int rank, std::uint64_t i) {
    const auto mixed =
        static_cast<std::int64_t>((i * 2654435761u + static_cast<std::uint64_t>(rank) * 40503u) % period);
    return std::is_floating_point_v<T> ? static_cast<T>((mixed - 1000) / 7.0) : static_cast<T>(mixed - 1000);
}

template <typename T>
std::vector<T> values(int rank, std::uint64_t count) {
    std::vector<T> result(count);
    for (std::uint64_t i = 0; i < count; ++i) result[i] = i < period ? value<T>(rank, i) : result[i - period];
    return result;
}

// The rank's factor for its input, if the operator multiplies.
template <typename T>
T factor(int rank) {
    return std::is_floating_point_v<T> ? static_cast<T>(0.3 - 0.7 * rank) : static_cast<T>(3 - 2 * rank);
}

template <typename T>
T reduced(ReduceOp op, int ranks, std::uint64_t i) {
    const auto part = [&](int rank) -> long double {
        return row_of(op).multiplies ? factor<T>(rank) * value<T>(rank, i) : value<T>(rank, i);
    };
    long double result = part(0);
    for (int rank = 1; rank < ranks; ++rank) {
        const long double next = part(rank);
        result = op == ReduceOp::max   ? std::max(result, next)
                 : op == ReduceOp::min ? std::min(result, next)
                                       : result + next;
    }
    return static_cast<T>(result);
}

template <typename T>
bool close_to(T a, T b) {
    return std::abs(static_cast<double>(a) - static_cast<double>(b)) <= (sizeof(T) == 4 ? 2e-3 : 1e-10);
}

// The places of a collective's buffers.
enum class Place { malloc, window, mixed };  // mixed: the odd ranks' in the window

template <typename T>
class Buffer {
  public:
    Buffer(Communicator& comm, Place place, const std::vector<T>& values) : comm_(comm), own_(values) {
        if (place == Place::malloc || (place == Place::mixed && comm.rank() % 2 == 0) || values.empty())
            return;
        shared_ = static_cast<T*>(comm.connections().window().allocate(values.size() * sizeof(T)));
        std::copy(values.begin(), values.end(), shared_);
    }
    ~Buffer() {
        if (shared_) comm_.connections().window().release(shared_);
    }
    T* data() { return shared_ ? shared_ : own_.data(); }

  private:
    Communicator& comm_;
    std::vector<T> own_;
    T* shared_ = nullptr;
};

// Runs one collective with one executor, in or out of place, and returns the result.
template <typename T>
std::vector<T> run(Communicator& comm, PlanChoice choice, std::uint64_t count, bool in_place,
                   Place place = Place::malloc) {
    choice.type = type_of<T>();
    const auto plan = comm.plans().cached_plan(choice, count);
    const test::Extents extents(choice.collective, choice.root, comm.rank(), comm.size(), count);
    const auto mine = values<T>(comm.rank(), extents.sent);
    const auto by = static_cast<double>(factor<T>(comm.rank()));
    if (!in_place) {
        Buffer<T> send(comm, place, mine), recv(comm, place, std::vector<T>(extents.received, T{77}));
        const bool gets_none = extents.received == 0;
        comm.run(plan, send.data(), gets_none ? nullptr : recv.data(), count, by);
        expect(std::equal(mine.begin(), mine.end(), send.data()), "the send buffer was written to");
        return std::vector<T>(recv.data(), recv.data() + extents.received);
    }
    std::vector<T> both(extents.whole, T{77});
    std::copy(mine.begin(), mine.end(), both.begin() + static_cast<std::ptrdiff_t>(extents.send_begin));
    Buffer<T> buffer(comm, place, both);
    T* recv = buffer.data() + extents.recv_begin;
    comm.progress().wait(comm.start(plan, buffer.data() + extents.send_begin, recv, count, by));
    if (extents.received == 0)
        expect(std::equal(both.begin(), both.end(), buffer.data()),
               "a buffer without a result was written to");
    return std::vector<T>(recv, recv + extents.received);
}

// What the rank must receive. Calculates one period of each piece, which then repeats.
template <typename T>
std::vector<T> wanted(const Communicator& comm, const PlanChoice& choice, std::uint64_t count) {
    const dsl::Contract contract = contract_of(choice.collective);
    const test::Extents extents(choice.collective, choice.root, comm.rank(), comm.size(), count);
    const bool has_pieces = contract.gathers() || contract.exchanges();
    std::vector<T> result(extents.received);
    for (std::uint64_t i = 0; i < result.size(); ++i) {
        const std::uint64_t place = extents.recv_begin + i;
        if ((has_pieces ? place % count : i) >= period)
            result[i] = result[i - period];
        else if (contract.combines())
            result[i] = reduced<T>(choice.op.built_in(), comm.size(), place);
        else
            result[i] = value<T>(test::sender_of(choice.collective, choice.root, count, place),
                                 test::place_at_sender(choice.collective, comm.rank(), count, place));
    }
    return result;
}

template <typename T>
void expect_result(const Communicator& comm, const PlanChoice& choice, std::uint64_t count,
                   const std::vector<T>& got) {
    const std::vector<T> want = wanted<T>(comm, choice, count);
    expect(got.size() == want.size(), "the result has another length");
    for (std::uint64_t i = 0; i < got.size(); ++i) {
        if (got[i] == want[i] || close_to(got[i], want[i])) continue;
        expect(false,
               fmt::format("{} of {} {} {}: element {} is {}, expected {}", dsl::name_of(choice.collective),
                           count, name_of(type_of<T>()), choice.op.name(), i, got[i], want[i]));
    }
}

template <typename T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <typename T>
void check_collective(Communicator& comm, PlanChoice choice, std::initializer_list<std::uint64_t> counts) {
    for (const std::uint64_t count : counts) {
        choice.type = type_of<T>();
        choice.executor = test::compiled_if_any();
        const auto usual = comm.plans().cached_plan(choice, count);
        choice.executor = ExecutorKind::interpreter;
        expect(comm.options().executor == ExecutorKind::interpreter ||
                   comm.plans().cached_plan(choice, count) != usual,
               "the interpreter was asked for, and the JIT's plan came");
        const auto oracle = run<T>(comm, choice, count, false);
        expect_result(comm, choice, count, oracle);
        for (const auto executor : {ExecutorKind::interpreter, test::compiled_if_any()})
            for (const bool in_place : {false, true}) {
                choice.executor = executor;
                expect(
                    same_bits(run<T>(comm, choice, count, in_place), oracle),
                    fmt::format("{} of {} {} {}: {} {} differs from the interpreter",
                                dsl::name_of(choice.collective), count, name_of(type_of<T>()),
                                choice.op.name(), name_of(executor), in_place ? "in place" : "out of place"));
            }
    }
}

// A large count. Where it is that of one rank's piece, it is usually smaller, for the whole is large then.
std::uint64_t large(Collective collective, std::uint64_t count) {
    return contract_of(collective).is_by_rank() ? test::in_long_form(count, count / 4 | 1) : count;
}

// The root, if the collective has one.
dsl::Rank last_if_any(const Communicator& comm, Collective collective) {
    return contract_of(collective).has_root() ? comm.size() - 1 : 0;
}

// The operators: a plain sum, and for collectives that combine also one that multiplies the input.
std::vector<ReduceOp> sums_of(Collective collective) {
    if (contract_of(collective).combines()) return {ReduceOp::sum, ReduceOp::premul_sum};
    return {ReduceOp::sum};
}

std::unique_ptr<Communicator> join() {
    return Communicator::create(engine::resolve({}));
}

// Usually, every other collective and operator; they alternate between types and numbers of ranks.
template <typename T>
void check_type(Communicator& comm, unsigned& number) {
    for (const Collective collective : dsl::all_collectives)
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min, ReduceOp::premul_sum}) {
            const dsl::Contract contract = contract_of(collective);
            if (!contract.combines() && op != ReduceOp::sum) continue;
            if (number++ % test::in_long_form(1u, 2u) != 0) continue;
            const PlanChoice choice{
                .collective = collective, .op = op, .root = last_if_any(comm, collective)};
            if (contract.is_by_rank())
                check_collective<T>(comm, choice, {0, 1, 5, 333});
            else
                check_collective<T>(comm, choice, {0, 1, 7, 1000});
        }
}

}  // namespace

TEST_CASE(
    "all collectives, types and operators are right on 1 to 5 ranks, with the JIT and the interpreter "
    "alike") {
    for (const int ranks : {1, 2, 3, 4, 5}) {
        const auto outcomes = run_ranks({ranks, {}, 120}, [&](int) {
            const auto comm = join();
            auto number = static_cast<unsigned>(ranks);
            check_type<float>(*comm, number);
            check_type<double>(*comm, number);
            check_type<std::int32_t>(*comm, number);
            check_type<std::int64_t>(*comm, number);
        });
        INFO(ranks << " ranks");
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE(
    "odd counts, large and small, are right over memory and both fabrics, with every schedule that fits") {
    struct Case {
        int ranks;
        const char *topology, *schedule;
    };
    unsigned provider_number = 0;
    for (const std::string provider : {"", "ofi+tcp", "tcp"}) {
        unsigned number = provider_number++;
        for (const Case& c : {Case{3, "", "ring"},
                              {4, "2x2", "blueconnect"},
                              {6, "2x3", "blueconnect"},
                              {4, "bcube(2,2)", "bml"},
                              {4, "", "halving"},
                              {5, "", "direct"}}) {
            // Usually, a schedule goes over memory and one of the fabrics.
            if (!provider.empty() && number++ % test::in_long_form(1u, 2u) != 0) continue;
            const auto outcomes =
                run_ranks({c.ranks,
                           {{"HOCKET_PROVIDER_FOR_ALL", provider},
                            {"HOCKET_TOPOLOGY", c.topology},
                            {"HOCKET_SCHEDULE", c.schedule}},
                           120},
                          [](int) {
                              const auto comm = join();
                              check_collective<float>(*comm, {}, {0, 1, 2, 3, 5, 7, 1000, 100003});
                          });
            INFO(provider << " " << c.topology << " " << c.schedule);
            CHECK(test::problems(outcomes) == "");
        }
    }
}

TEST_CASE("schedules to compare with are right over memory and TCP, on 2 to 9 ranks") {
    const std::vector<std::pair<int, const char*>> topologies{{2, "2x1"}, {3, "1x3"}, {4, "2x2"}, {5, "5x1"},
                                                              {6, "2x3"}, {7, "1x7"}, {8, "4x2"}, {9, "3x3"}};
    for (const std::string provider : {"", "tcp"})
        for (const auto& [ranks, topology] : topologies) {
            // Usually, either over memory or over TCP.
            if (!test::is_long_form() && provider.empty() != (ranks % 3 != 0)) continue;
            const auto outcomes = run_ranks(
                {ranks, {{"HOCKET_PROVIDER_FOR_ALL", provider}, {"HOCKET_TOPOLOGY", topology}}, 120},
                [](int) {
                    const auto comm = join();
                    for (const char* schedule :
                         {"two_level", "rings", "pipelined_tree(3)", "parameter_server(2)"})
                        check_collective<float>(*comm, {.schedule = schedule}, {1, 7, 5003});
                });
            INFO(provider << " " << topology);
            CHECK(test::problems(outcomes) == "");
        }
}

TEST_CASE("what local peers wrote to a copy of the output is read there") {
    for (const char* schedule : {"binomial", "chain", "scatter", "tree"}) {
        const auto outcomes = run_ranks({4, {{"HOCKET_SCHEDULE", schedule}}, 60}, [](int) {
            const auto comm = join();
            check_collective<float>(*comm, {.collective = Collective::broadcast, .root = 1},
                                    {5003, 100003, 300007});
        });
        INFO(schedule);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("a rank without room in the window tells the others") {
    const auto outcomes = run_ranks({3, {{"HOCKET_SCHEDULE", "ring"}}, 60}, [](int rank) {
        const auto comm = join();
        // In blocks too small to get memory before they are touched.
        constexpr std::size_t block = 1 << 20;
        while (rank == 1 && comm->connections().window().free_bytes() > 3 * block)
            comm->connections().window().allocate(block);
        comm->exchanges().barrier();
        const double begin = test::now_ms();
        constexpr std::uint64_t count = 2'000'000;  // of work area: more than is free
        std::vector<float> send(3 * count), recv(count);
        const auto text = failure_of([&] {
            comm->run(comm->plans().cached_plan({.collective = Collective::reduce_scatter}, count),
                      send.data(), recv.data(), count);
        });
        expect_contains(text, {"-9:"});
        if (rank != 1) expect_contains(text, {"rank 1 reported: rank 1 cannot go on"});
        expect(test::now_ms() - begin < too_late_ms, "known too late");
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("a rank that runs out of memory in a small collective tells the others") {
    const test::Tally met;
    const auto outcomes = run_ranks({3}, [&](int rank) {
        const auto comm = join();
        const auto& plan = comm->plans().cached_plan({}, 100);
        std::vector<float> data(100);
        comm->run(plan, data.data(), data.data(), 99);
        met.meet(3);  // a rank that is still at work would hear of the failure there
        next_allocation_fails = rank == 1;
        const auto text = [&]() -> std::string {
            try {
                comm->run(plan, data.data(), data.data(), 100);
            } catch (const std::bad_alloc&) {
                return "bad_alloc";
            } catch (const Error& error) {
                return error.what();
            }
            return "no failure";
        }();
        expect_contains(text, {rank == 1 ? "bad_alloc" : "rank 1 reported: rank 1 cannot go on"});
    });
    CHECK(test::problems(outcomes) == "");
}

namespace {

void check_places(Communicator& comm, const PlanChoice& choice, std::uint64_t count) {
    const auto oracle = run<float>(comm, choice, count, false);
    expect_result(comm, choice, count, oracle);
    for (const Place place : {Place::window, Place::mixed})
        for (const bool in_place : {false, true})
            expect(same_bits(run<float>(comm, choice, count, in_place, place), oracle),
                   fmt::format("{} of {} {}: place {}, in place {}", dsl::name_of(choice.collective), count,
                               choice.op.name(), int(place), in_place));
}

}  // namespace

TEST_CASE("buffers in the window, in private memory and in both give the same bits") {
    for (const int ranks : {2, 3, 4}) {
        const auto outcomes = run_ranks({ranks, {}, 120}, [&](int) {
            const auto comm = join();
            for (const auto collective : dsl::all_collectives)
                for (const std::uint64_t count :
                     test::is_long_form() || ranks == 3
                         ? std::vector<std::uint64_t>{1, 1000, 5003, large(collective, 70001),
                                                      large(collective, 300007)}
                         : std::vector<std::uint64_t>{1000, large(collective, 70001)})
                    for (const auto executor : {ExecutorKind::interpreter, test::compiled_if_any()})
                        for (const ReduceOp op : sums_of(collective))
                            check_places(*comm, {.collective = collective, .op = op, .executor = executor},
                                         count);
        });
        INFO(ranks << " ranks");
        CHECK(test::problems(outcomes) == "");
    }
}

// Data change places in them: in one buffer, and in two, whose positions are not the caller's.
TEST_CASE("a plan gives the same bits before it is compiled, while it is, and after") {
    const auto outcomes = run_ranks({3, {}, 120}, [](int) {
        const auto comm = join();
        for (const auto collective :
             {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
            // The kernels of the product are compiled after some starts; those of the others may come
            // compiled.
            for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max, ReduceOp::product})
                for (const std::uint64_t count : {1000, 70001}) {
                    PlanChoice choice{
                        .collective = collective, .op = op, .executor = ExecutorKind::interpreter};
                    if (!contract_of(collective).combines()) choice.op = ReduceOp::sum;
                    const auto oracle = run<float>(*comm, choice, count, false);
                    choice.executor = ExecutorKind::automatic;
                    for (int start = 0; start < 10; ++start)
                        expect(same_bits(run<float>(*comm, choice, count, start % 2 == 0), oracle),
                               fmt::format("start {} of {} differs", start, dsl::name_of(collective)));
                }
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("exchanges inside of any collective are right, wherever buffers are") {
    const std::string path = "/tmp/hocket-exchanges-" + std::to_string(getpid()) + ".sched";
    std::ofstream(path) << R"(
        algorithm in_one all_to_all(x) over g {
            each r in g, j in g where 2 * j mod g.size != 0
                x[r + j] : r -> x[r - j] : r
            for k in 0 ..< log2_up(g.size)
                each r in g, j in g where j / 2**k mod 2 == 1
                    x[r - j] : r -> x[r + 2**k - j] : r + 2**k
        }
        algorithm turn all_to_all(x, y) over g {
            each r in g  x : r -> y : r + 1
        }
        algorithm twice all_to_all(x, y) over g {
            each r in g           x[r + 1] : r -> y[r] : r
            each r in g, q in g   x[q] : r -> y[r] : q
        }
        schedule one all_to_all(x) { all_to_all x over world using in_one }
        schedule moved reduce_scatter(x) {
            all_to_all x over world using direct
            each q in world, s in world where s != q  x[s] : q +> x[q] : q
        }
        schedule moved all_gather(x) {
            all_gather x over world using direct
            all_to_all x over world using twice
            each q in world, s in world where s != q  x[q] : q -> s
        }
        schedule turned all_reduce(x) {
            all_to_all x over world using turn
            all_to_all x over world using turn
            all_reduce x over world using exchange
        })";
    for (const std::string hosts : {"aaa", "abc", "aabb"}) {
        const auto outcomes = run_ranks({static_cast<int>(hosts.size()), {}, 120}, [&](int rank) {
            setenv("HOCKET_HOST_ID", hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
            const auto comm = join();
            for (const auto& [collective, name] : {std::pair(Collective::all_to_all, ":one"),
                                                   {Collective::reduce_scatter, ":moved"},
                                                   {Collective::all_gather, ":moved"},
                                                   {Collective::all_reduce, ":turned"}})
                for (const ReduceOp op : sums_of(collective)) {
                    const PlanChoice choice{.collective = collective, .op = op, .schedule = path + name};
                    const std::uint64_t some = large(collective, 70'001);
                    check_collective<float>(*comm, choice, {0, 1, 7, 1000, some, large(collective, 400'009)});
                    for (const Place place : {Place::window, Place::mixed})
                        for (const bool in_place : {false, true})
                            expect_result(*comm, choice, some,
                                          run<float>(*comm, choice, some, in_place, place));
                }
        });
        INFO(hosts);
        CHECK(test::problems(outcomes) == "");
    }
    std::remove(path.c_str());
}

TEST_CASE(
    "memory inside hosts and messages between them are right together, for every collective and placement") {
    struct Case {
        int ranks;
        std::string hosts;  // a letter for each rank
        const char *topology, *schedule;
    };
    for (const Case& c : {Case{4, "aabb", "", ""},
                          {4, "abab", "", ""},
                          {5, "aaabb", "", ""},
                          {6, "aabbcc", "", ""},
                          {6, "aaabbb", "3x2", "blueconnect"},
                          {4, "aabb", "bcube(2,2)", "bml"},
                          {4, "abba", "", "halving"},
                          {5, "aabab", "", "ring"},
                          {3, "aab", "", "exchange"}}) {
        const auto outcomes = run_ranks(
            {c.ranks, {{"HOCKET_TOPOLOGY", c.topology}, {"HOCKET_SCHEDULE", c.schedule}}, 120},
            [&](int rank) {
                setenv("HOCKET_HOST_ID", c.hosts.substr(static_cast<std::size_t>(rank), 1).c_str(), 1);
                const auto comm = join();
                expect(comm->connections().provider().find("tcp") != std::string::npos,
                       "no messages: " + comm->connections().provider());
                // Usually, half of the collectives, which differ from case to case.
                std::size_t number = c.hosts[1] == 'a' ? 0 : 1;
                for (const auto collective : dsl::all_collectives)
                    for (const ReduceOp op : sums_of(collective)) {
                        if (number++ % test::in_long_form(1u, 2u) != 0) continue;
                        const PlanChoice choice{
                            .collective = collective, .op = op, .root = last_if_any(*comm, collective)};
                        const std::uint64_t most = large(collective, 70001);
                        check_collective<float>(*comm, choice, {0, 1, 7, 1000, most});
                        for (const Place place : {Place::window, Place::mixed})
                            for (const bool in_place : {false, true})
                                expect_result(*comm, choice, most,
                                              run<float>(*comm, choice, most, in_place, place));
                    }
            });
        INFO(c.hosts << " " << c.schedule);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("many small operations in flight keep to their slots") {
    const auto outcomes = run_ranks({4, {}, 60}, [](int rank) {
        const auto comm = join();
        for (int round = 0; round < 200; ++round) {
            std::vector<std::vector<std::int64_t>> data;
            std::vector<engine::Execution*> started;
            const auto& reduce = comm->plans().cached_plan({.type = DataType::int64}, 3);
            const auto& broadcast =
                comm->plans().cached_plan({.collective = Collective::broadcast, .type = DataType::int64}, 3);
            for (std::int64_t i = 0; i < 20; ++i) data.push_back({rank + i, round, i});
            for (std::size_t i = 0; i < data.size(); ++i)
                started.push_back(
                    &comm->start(i % 3 == 2 ? broadcast : reduce, data[i].data(), data[i].data(), 3));
            for (auto* execution : started) comm->progress().wait(*execution);
            for (std::int64_t i = 0; i < 20; ++i) {
                const bool sums = i % 3 != 2;
                const std::vector<std::int64_t> want =
                    sums ? std::vector<std::int64_t>{6 + 4 * i, 4 * round, 4 * i}
                         : std::vector<std::int64_t>{i, round, i};
                expect(data[static_cast<std::size_t>(i)] == want,
                       fmt::format("round {}, operation {}", round, i));
            }
        }
    });
    CHECK(test::problems(outcomes) == "");
}

// In place, so that a start that begins twice would show: it would read its input again after overwriting it.
TEST_CASE("small collectives that are done at once, asked for, and with late ranks, may be mixed") {
    for (const int ranks : {2, 3, 5}) {
        const auto outcomes = run_ranks({ranks, {}, 120}, [&](int rank) {
            const auto comm = join();
            for (std::uint64_t round = 0; round < 2000; ++round) {
                const std::uint64_t dice = (round + 1) * 0x9e3779b97f4a7c15u >> 32;
                const std::uint64_t count = dice % 7 == 0 ? 900 : 1 + dice % 31;
                const bool at_once = dice / 7 % 4 != 0;
                if (dice / 64 % 16 == static_cast<std::uint64_t>(rank))
                    std::this_thread::sleep_for(std::chrono::microseconds(dice / 1024 % 1500));
                std::vector<std::int64_t> data(count);
                for (std::uint64_t i = 0; i < count; ++i)
                    data[i] = static_cast<std::int64_t>(round * 1000 + i) * (rank + 1);
                const auto& plan = comm->plans().cached_plan({.type = DataType::int64}, count);
                if (at_once)
                    comm->run(plan, data.data(), data.data(), count);
                else
                    comm->progress().wait(comm->start(plan, data.data(), data.data(), count));
                for (std::uint64_t i = 0; i < count; ++i)
                    expect(data[i] == static_cast<std::int64_t>(round * 1000 + i) * ranks * (ranks + 1) / 2,
                           [&] {
                               return fmt::format("round {}, element {} of {}: {}", round, i, count, data[i]);
                           });
            }
        });
        INFO(ranks << " ranks");
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("a count of 0 against others is noticed at once") {
    for (const std::uint64_t count : {5, 100000}) {
        const auto outcomes = run_ranks({3, {}, 60}, [&](int rank) {
            const auto comm = join();
            std::vector<float> data(count);
            const double begin = test::now_ms();
            const std::uint64_t own = rank == 1 ? 0 : count;
            const auto& plan = comm->plans().cached_plan({}, own);
            const std::string text = failure_of([&] {
                comm->run(plan, data.data(), data.data(), own);
                comm->exchanges().barrier();
            });
            expect_contains(text, {"-8:", "different operations"});
            expect(test::now_ms() - begin < too_late_ms, "known too late");
        });
        INFO(count);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("a barrier holds everybody until the last one comes") {
    const test::Tally waiting, entered;
    const auto outcomes = run_ranks({3}, [&](int rank) {
        const auto comm = join();
        waiting.add();
        if (rank == 1) {
            waiting.await(3);
            std::this_thread::sleep_for(50ms);  // time for a mistake
            entered.add();
        }
        comm->exchanges().barrier();
        expect(entered.value() == 1, "the barrier let a rank through");
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("sizes that come out the same share a plan; messages need none of their own for small ones") {
    for (const char* provider : {"", "tcp"}) {
        const auto outcomes =
            run_ranks({3, {{"HOCKET_PROVIDER_FOR_ALL", provider}, {"HOCKET_SCHEDULE", "ring"}}}, [&](int) {
                const auto comm = join();
                const auto plan = [&](std::uint64_t count) {
                    return comm->plans().cached_plan({}, count).get();
                };
                expect(plan(1) == plan(1000) && plan(1 << 20) == plan(1 << 23), "one plan for many sizes");
                expect((plan(1) == plan(1 << 20)) == (provider[0] != '\0'), "a plan for small ones");
                comm->exchanges().barrier();
            });
        INFO(provider);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("where ranks share cores, more copies are made before the only wait, but no more is combined") {
    for (const bool two_hosts : {false, true}) {
        const auto outcomes = run_ranks({4}, [&](int rank) {
            if (two_hosts) setenv("HOCKET_HOST_ID", rank < 2 ? "a" : "b", 1);
            // Ranks share a core on both, whatever the machine has.
            cpu_set_t all, first;
            expect(sched_getaffinity(0, sizeof all, &all) == 0, "cores");
            CPU_ZERO(&first);
            for (int core = 0; core < CPU_SETSIZE && CPU_COUNT(&first) == 0; ++core)
                if (CPU_ISSET(core, &all)) CPU_SET(core, &first);
            expect(sched_setaffinity(0, sizeof first, &first) == 0, "a core");
            const auto comm = join();
            expect(comm->connections().local_peers()->ranks_per_core() > 1, "shared cores");
            const auto is_small = [&](Collective collective, std::uint64_t bytes) {
                const auto plan = comm->plans().cached_plan({.collective = collective}, bytes / 4);
                return plan->program().protocol == dsl::Protocol::latency;
            };
            expect(is_small(Collective::broadcast, 16 << 10), "a broadcast of 16 KiB");
            expect(is_small(Collective::broadcast, 64 << 10) == !two_hosts, "a broadcast of 64 KiB");
            expect(is_small(Collective::all_reduce, 16 << 10), "an all_reduce of 16 KiB");
            expect(!is_small(Collective::broadcast, (64 << 10) + 4), "a broadcast of more");
            expect(!is_small(Collective::all_reduce, 32 << 10), "an all_reduce of 32 KiB");
            comm->exchanges().barrier();
        });
        INFO((two_hosts ? "two hosts" : "one host"));
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("a difference in the set-up is named at creation, on all ranks") {
    struct Difference {
        std::string variable, usual, other;
    };
    for (const auto& [variable, usual, other] : {Difference{"HOCKET_TOPOLOGY", "", "3x1"},
                                                 {"HOCKET_PROBE", "on", "off"},
                                                 {"HOCKET_RAILS", "1", "2"}}) {
        const std::string named = "the ranks differ in " + variable,
                          usual_ones = "\"" + usual + "\" on ranks 0, 2",
                          other_one = "\"" + other + "\" on rank 1";
        const auto outcomes = run_ranks({3}, [&](int rank) {
            if (rank == 1) setenv(variable.c_str(), other.c_str(), 1);
            expect_contains(failure_of([] { join(); }),
                            {"-8:", named.c_str(), usual_ones.c_str(), other_one.c_str()});
        });
        INFO(variable);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("a host's name on some ranks only is named, too") {
    const auto outcomes = run_ranks({2}, [](int rank) {
        if (rank == 1) setenv("HOCKET_HOST_ID", "b", 1);
        expect_contains(failure_of([] { join(); }),
                        {"-8:", "the ranks differ in setting HOCKET_HOST_ID", "\"yes\" on rank 1"});
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("a topology or a schedule that does not fit is the language's error") {
    const auto outcomes = run_ranks({2, {{"HOCKET_TOPOLOGY", "2x2"}}},
                                    [](int) { expect_contains(failure_of([] { join(); }), {"-2:"}); });
    CHECK(test::problems(outcomes) == "");
    const auto misspelled = run_ranks({2, {{"HOCKET_SCHEDULE", "rnig"}}}, [](int) {
        expect_contains(failure_of([] { join(); }), {"-3:", "no schedule 'rnig' (did you mean 'ring'?)"});
    });
    CHECK(test::problems(misspelled) == "");

    const auto comm = Communicator::create({});
    expect_contains(failure_of([&] { comm->plans().make({.schedule = "no_such_schedule"}); }),
                    {"-3:", "no_such_schedule"});
    expect_contains(failure_of([&] { comm->plans().make({.collective = Collective::broadcast, .root = 1}); }),
                    {"-1:", "root is 1"});
}

TEST_CASE("communicators may be left at different times, with operations unfinished") {
    const auto outcomes = run_ranks({3, {{"HOCKET_TIMEOUT_MS", "5000"}}}, [](int rank) {
        auto comm = join();
        auto data = values<float>(rank, 200000);
        const auto plan = comm->plans().cached_plan({}, data.size());
        if (rank != 2) comm->start(plan, data.data(), data.data(), data.size());  // rank 2 never joins in
        if (rank == 1) std::this_thread::sleep_for(300ms);
        const double begin = test::now_ms();
        comm.reset();
        // Destroying does not wait until the operation's deadline.
        expect(test::now_ms() - begin < 4500, fmt::format("destroying took {} ms", test::now_ms() - begin));
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("a rank that is done serves those that are late") {
    for (const char* provider : {"", "ofi+tcp", "tcp"}) {
        const auto outcomes = run_ranks({4, {{"HOCKET_PROVIDER_FOR_ALL", provider}}}, [](int rank) {
            const auto comm = join();
            if (rank == 3)
                std::this_thread::sleep_for(200ms);  // the others are at their goodbyes by now, or wait
            check_collective<double>(*comm, {.collective = Collective::broadcast, .root = 0}, {300000});
        });
        INFO(provider);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("a mismatch that two ranks notice is told to all, though the others wait for somebody else") {
    for (const char* provider : {"", "ofi+tcp", "tcp"})
        for (const bool leaves : {false, true}) {
            const test::Tally known, started;
            const auto outcomes = run_ranks(
                {5, {{"HOCKET_PROVIDER_FOR_ALL", provider}, {"HOCKET_SCHEDULE", "ring"}}}, [&](int rank) {
                    auto comm = join();
                    const std::uint64_t count = rank == 2 ? 1001 : 1000;
                    auto data = values<float>(rank, count);
                    const auto plan = comm->plans().cached_plan({}, count);
                    comm->exchanges().barrier();
                    const double begin = test::now_ms();
                    const auto text = failure_of([&] {
                        if (rank == 2) started.await(4);  // so that it has something to report itself
                        auto& execution = comm->start(plan, data.data(), data.data(), count);
                        started.add();
                        comm->progress().wait(execution);
                    });
                    const auto own = fmt::format("all_reduce #1 (ring on {}, float32 sum, {} elements)",
                                                 comm->options().topology, count);
                    // Either of the two may notice first, so the others may get the text of either.
                    expect_contains(text,
                                    {"-8:", "started different operations", own.c_str(), "ring.sched:"});
                    expect(test::now_ms() - begin < 10000, "known only at the deadline");
                    const auto status = comm->progress().failure();
                    expect(status && status->status == Status::mismatch, "the communicator's status");
                    if (!leaves) known.meet(5);
                });
            INFO(provider);
            CHECK(test::problems(outcomes) == "");
        }
}

TEST_CASE("a deadline that passes on one rank ends the operation on all") {
    const test::Tally known;
    const auto outcomes = run_ranks({4}, [&](int rank) {
        if (rank == 1) setenv("HOCKET_TIMEOUT_MS", "3000", 1);
        auto comm = join();
        comm->exchanges().barrier();
        if (rank == 3) return known.await(3);  // never comes
        auto data = values<float>(rank, 1000);
        const double begin = test::now_ms();
        const auto text = failure_of([&] {
            comm->progress().wait(comm->start(comm->plans().cached_plan({.schedule = "ring"}, 1000),
                                              data.data(), data.data(), 1000));
        });
        const double elapsed = test::now_ms() - begin;
        known.add();
        expect_contains(text,
                        {"-7:", "did not finish within 3000 ms", "rank 1 was in all_reduce #1 (ring on 4",
                         fmt::format("rank {} was in all_reduce #1", rank).c_str()});
        if (rank != 1) expect_contains(text, {"-7: rank 1 reported: the operation did not"});
        // Another rank may begin long after rank 1.
        expect((rank != 1 || elapsed > 2850) && elapsed < too_late_ms, fmt::format("it took {} ms", elapsed));
        if (rank == 1) comm.reset();  // at once: the report goes ahead of the goodbye
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("while rank 0 is stopped, what takes too long ends with the same status on all") {
    auto* rank_0 = static_cast<pid_t*>(test::shared_memory(sizeof(pid_t)));
    const test::Tally met, known;
    const auto outcomes = run_ranks({4, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [&](int rank) {
        // Rank 1 closes its connections first, and the others see only that.
        const char* timeout = rank == 1 ? "2500" : "4500";
        setenv("HOCKET_TIMEOUT_MS", timeout, 1);
        auto comm = join();
        if (rank == 0) *rank_0 = getpid();
        comm->exchanges().barrier();
        met.meet(4);
        if (rank == 1) kill(*rank_0, SIGSTOP);
        if (rank == 0) known.await(3);
        auto data = values<float>(rank, 1000);
        const auto text = failure_of([&] {
            comm->progress().wait(comm->start(comm->plans().cached_plan({.schedule = "ring"}, 1000),
                                              data.data(), data.data(), 1000));
        });
        known.add();
        if (rank == 0) return expect_contains(text, {"-7:", "did not finish within"});
        expect_contains(text, {"-7:", fmt::format("did not finish within {} ms", timeout).c_str()});
        known.await(3);
        if (rank == 1) kill(*rank_0, SIGCONT);
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("a rank that leaves does not end what the others still do") {
    const test::Tally gone;
    const auto outcomes = run_ranks({3, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [&](int rank) {
        auto comm = join();
        comm->exchanges().barrier();
        if (rank == 2) {
            comm.reset();  // no peer receives its goodbye within the half second
            return gone.add();
        }
        gone.await(1);
        expect(!comm->progress().failure(), "the communicator is broken");
        // Messages that it sent before its goodbye may complete one barrier.
        const auto text = failure_of([&] { comm->exchanges().barrier(), comm->exchanges().barrier(); });
        expect_contains(text, {"-6:", "rank 2 has left the job", "was in barrier #", "(3 ranks)"});
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("a rank that cannot open its fabric tells the others why") {
    const auto outcomes = run_ranks({3, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [](int rank) {
        if (rank == 1) setenv("HOCKET_FABRIC_ADDR", "203.0.113.7", 1);
        const double begin = test::now_ms();
        const auto text = failure_of([] { join(); });
        expect_contains(text, {"-5:", "203.0.113.7", "must be an address of this host"});
        if (rank != 1) expect_contains(text, {"-5: rank 1 reported: provider 'tcp' cannot listen"});
        expect(test::now_ms() - begin < too_late_ms, "known too late");
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("a silent rank is found by its missing heartbeat") {
    auto* stopped = static_cast<double*>(test::shared_memory(2 * sizeof(double)));
    auto* pid = reinterpret_cast<pid_t*>(stopped + 1);
    const auto outcomes = run_ranks({3, {{"HOCKET_HEARTBEAT_TIMEOUT_MS", "3000"}}}, [&](int rank) {
        const auto comm = join();
        if (rank == 1) *pid = getpid();
        comm->exchanges().barrier();
        if (rank == 0) {
            *stopped = test::now_ms();
            kill(*pid, SIGSTOP);
        }
        const auto text = failure_of([&] {
            if (rank != 1)
                comm->exchanges().barrier();
            else
                std::this_thread::sleep_for(30s);
        });
        if (rank == 1) return;
        expect_contains(text, {"-6:", "rank 1 was lost", "heartbeat"});
        expect(test::now_ms() - *stopped < too_late_ms, "known too late");
        if (rank == 0) kill(*pid, SIGKILL);
    });
    CHECK(outcomes[1].signal == SIGKILL);
    for (const int survivor : {0, 2}) CHECK(outcomes[survivor].text == "");
}

TEST_CASE("a thread that plans waits for another's turn no longer than its deadline") {
    engine::Planning planning;
    std::optional<engine::Planning::Turn> turn(planning.turn(0ms));
    std::thread([&] {
        const std::string text = failure_of([&] { planning.turn(20ms); });
        CHECK(text.starts_with(fmt::format("{}: ", static_cast<int>(Status::timeout))));
        CHECK(text.find("for 20 ms") != std::string::npos);
    }).join();
    std::thread waits([&] { planning.turn(60s); });
    turn.reset();
    waits.join();
}
