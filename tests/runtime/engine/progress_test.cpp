// Real processes over real fabrics, with programs made by hand.
#include "runtime/engine/progress/progress.hpp"
#include "runtime/engine/job/open_fabric.hpp"
#include "runtime/engine/run/startable_plan.hpp"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <new>
#include <numeric>
#include <thread>

#include "runtime/engine/job/agreement.hpp"
#include "runtime/engine/reports/notice.hpp"
#include "tests/runtime/engine/failures.hpp"
#include "tests/runtime/engine/programs.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace std::chrono_literals;
using engine::Execution;
using engine::ExecutorKind;
using engine::StartablePlan;
using test::expect;
using test::expect_contains;
using test::failure_of;
using test::Job;
using test::run_ranks;

namespace {

thread_local std::size_t allocations = 0;

}  // namespace

// Counts allocations of this thread's C++ code; libfabric's own memory does not count. (Not inlined: the
// compiler would take free for a mismatch with new.)
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    ++allocations;
    return std::malloc(bytes);
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

// The parts of a communicator, without the schedule language.
struct Station {
    engine::Options options = engine::resolve({});
    std::unique_ptr<transport::Bootstrap> bootstrap;
    std::unique_ptr<transport::Fabric> fabric;
    std::unique_ptr<engine::Progress> progress;

    // timeout: of operations. The set-up has the default, so that it survives a busy machine.
    explicit Station(std::optional<std::chrono::milliseconds> timeout = {}) {
        transport::BootstrapOptions join;
        join.rank = options.rank;
        join.world_size = options.world_size;
        join.master_port = options.master_port;
        join.listen_fd = options.listen_fd;
        join.secret = options.secret;
        bootstrap = transport::Bootstrap::join(join);
        engine::agree(*bootstrap, options, "", {});
        fabric = engine::open_fabric(options.provider, "127.0.0.1");
        engine::connect_all(*bootstrap, *fabric, {std::chrono::steady_clock::now() + options.timeout});
        progress = std::make_unique<engine::Progress>(*bootstrap, nullptr, fabric.get(),
                                                      timeout.value_or(options.timeout));
    }

    std::shared_ptr<StartablePlan> ring(DataType type = DataType::int64,
                                        ExecutorKind kind = ExecutorKind::interpreter) const {
        return StartablePlan::make(test::ring_all_reduce(options.rank, options.world_size), type,
                                   ReduceOp::sum, kind);
    }
    // As for ranks that share hosts.
    std::shared_ptr<StartablePlan> ring_in_tiles() const {
        dsl::RankProgram program = test::ring_all_reduce(options.rank, options.world_size);
        program.memory_is_shared = true;
        return StartablePlan::make(std::move(program), DataType::int64, ReduceOp::sum,
                                   ExecutorKind::interpreter);
    }
    std::shared_ptr<StartablePlan> broadcast_in_parts(int root) const {
        return StartablePlan::make(test::broadcast_in_parts(options.rank, options.world_size, root),
                                   DataType::int64, ReduceOp::sum, ExecutorKind::interpreter);
    }
    std::shared_ptr<StartablePlan> broadcast(int root) const {
        return StartablePlan::make(test::flat_broadcast(options.rank, options.world_size, root),
                                   DataType::int64, ReduceOp::sum, ExecutorKind::interpreter);
    }
    void run(const std::shared_ptr<StartablePlan>& plan, const void* send, void* recv, std::uint64_t count) {
        progress->wait(progress->start(plan, count, send, recv));
    }
    // A rank does not leave while others still need its messages.
    void meet() { bootstrap->all_gather("", 20s); }
};

// All ranks have left; and rank 1's report from before it left arrives only while a rank asks whether it has
// left, after the time that a goodbye is given.
class LateReport : public transport::Bootstrap {
  public:
    explicit LateReport(transport::Bootstrap& real) : real_(real) {
        expect(pipe(event_) == 0 && write(event_[1], "x", 1) == 1, "a descriptor that is readable");
    }
    ~LateReport() override { close(event_[0]), close(event_[1]); }

    int rank() const override { return real_.rank(); }
    int world_size() const override { return real_.world_size(); }
    std::vector<std::string> all_gather(std::string_view, std::chrono::milliseconds,
                                        std::optional<std::uint64_t>) override {
        return {};
    }
    void come() override {}
    bool all_have_come(transport::Clock::time_point) override { return false; }
    std::optional<std::vector<int>> absent(std::chrono::milliseconds) override { return std::nullopt; }
    std::optional<transport::Loss> loss() const override { return std::nullopt; }
    void wait_in(std::uint64_t) override {}
    void on_question(Asked) override {}
    void tell(const transport::Account&) override {}
    std::optional<transport::Difference> difference() const override { return std::nullopt; }
    std::map<int, transport::Idleness> idle_in(std::uint64_t) const override { return {}; }
    bool has_heard_host_since(transport::Clock::time_point) const override { return true; }
    bool has_left(int) const override {
        const double now = test::now_ms();
        if (first_asked_ < 0) first_asked_ = now;
        is_known_ = now - first_asked_ >= 200;
        return true;
    }
    void report(std::string_view) override {}
    std::optional<transport::Report> reported() const override {
        if (!is_known_) return std::nullopt;
        return transport::Report{
            1, engine::encode({Status::mismatch, 0, "all_reduce #0", "", "the counts differ"})};
    }
    std::optional<transport::Report> reported_by(int) const override { return reported(); }
    bool has_bad_news() const override { return is_known_; }
    std::optional<std::chrono::steady_clock::time_point> bad_news_since() const override {
        return std::nullopt;
    }
    int event_fd() const override { return event_[0]; }
    void leave() override {}

  private:
    transport::Bootstrap& real_;
    int event_[2] = {-1, -1};
    mutable double first_asked_ = -1;
    mutable bool is_known_ = false;
};

std::vector<std::int64_t> numbers(std::uint64_t count, int rank) {
    std::vector<std::int64_t> values(count);
    std::iota(values.begin(), values.end(), std::int64_t{1000} * rank);
    return values;
}

void expect_sum(const std::vector<std::int64_t>& values, int ranks, const std::string& what) {
    const std::int64_t all = 1000 * ranks * (ranks - 1) / 2;
    for (std::size_t i = 0; i < values.size(); ++i)
        expect(values[i] == all + static_cast<std::int64_t>(i) * ranks,
               [&] { return fmt::format("{}: element {} is {}", what, i, values[i]); });
}

const char* const providers[] = {"ofi+tcp", "tcp"};

}  // namespace

TEST_CASE("all_reduce is right on real fabrics, for any count, in and out of place, again and again") {
    for (const char* provider : providers)
        for (const int ranks : {2, 3, 5}) {
            const auto outcomes = run_ranks({ranks, {{"HOCKET_PROVIDER_FOR_ALL", provider}}}, [&](int rank) {
                Station station;
                const auto plan = station.ring();
                for (const std::uint64_t count : {0, 1, 2, 3, 5, 7, 1000, 100003, 1000, 7}) {
                    auto send = numbers(count, rank);
                    std::vector<std::int64_t> recv(count, -1);
                    station.run(plan, send.data(), recv.data(), count);
                    expect_sum(recv, ranks, "out of place");
                    station.run(plan, send.data(), send.data(), count);
                    expect_sum(send, ranks, "in place");
                }
                station.meet();
            });
            INFO(provider << " with " << ranks << " ranks");
            CHECK(test::problems(outcomes) == "");
        }
}

TEST_CASE("messages of several parts arrive on real fabrics, also for counts that leave some of them empty") {
    for (const char* provider : {"tcp", "ofi+tcp"}) {
        const auto outcomes = run_ranks({3, {{"HOCKET_PROVIDER_FOR_ALL", provider}}}, [&](int rank) {
            Station station;
            const auto plan = station.broadcast_in_parts(1);
            for (const std::uint64_t count : {0, 1, 2, 3, 5, 6, 7, 8, 1000, 1000003, 7}) {
                const auto send = numbers(count, rank);
                std::vector<std::int64_t> recv(count, -1);
                station.run(plan, send.data(), recv.data(), count);
                expect(recv == numbers(count, 1), fmt::format("the root's {} elements", count));
            }
            station.meet();
        });
        INFO(provider);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("a warm start allocates nothing") {
    // Over tcp: the shm fabric keeps a queue of its own, which is not the engine's.
    const auto outcomes = run_ranks({3, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [](int rank) {
        Station station;
        for (const auto& plan : {station.ring(), station.ring_in_tiles()}) {
            const std::uint64_t count = plan->program().memory_is_shared ? 200000 : 5000;
            auto values = numbers(count, rank);
            for (int i = 0; i < 20; ++i) station.run(plan, values.data(), values.data(), count);
            const std::size_t before = allocations;
            for (int i = 0; i < 50; ++i) station.run(plan, values.data(), values.data(), count);
            const std::size_t made = allocations - before;
            expect(made == 0, fmt::format("{} allocations in 50 starts of {}", made, count));
        }
        station.meet();
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("several operations may be in flight, of one plan and of two, and end in any order") {
    for (const char* provider : providers) {
        const auto outcomes = run_ranks({3, {{"HOCKET_PROVIDER_FOR_ALL", provider}}}, [&](int rank) {
            Station station;
            const auto ring = station.ring(), broadcast = station.broadcast(1);
            for (int round = 0; round < 3; ++round) {
                constexpr int flights = 6;
                std::vector<std::vector<std::int64_t>> buffers;
                std::vector<Execution*> executions;
                for (int i = 0; i < flights; ++i)
                    buffers.push_back(numbers(50 * static_cast<std::uint64_t>(i), rank));
                for (int i = 0; i < flights; ++i)
                    executions.push_back(&station.progress->start(i % 2 ? broadcast : ring, buffers[i].size(),
                                                                  buffers[i].data(), buffers[i].data()));
                // Every rank in another order, some by polling.
                for (int k = 0; k < flights; ++k) {
                    const int i = rank == 0 ? k : rank == 1 ? flights - 1 - k : (k * 5 + 2) % flights;
                    if (k % 2)
                        station.progress->wait(*executions[i]);
                    else
                        while (!station.progress->test(*executions[i])) std::this_thread::yield();
                }
                for (int i = 0; i < flights; ++i)
                    if (i % 2 == 0)
                        expect_sum(buffers[i], 3, fmt::format("operation {}", i));
                    else
                        expect(buffers[i] == numbers(buffers[i].size(), 1), fmt::format("broadcast {}", i));
            }
            station.meet();
        });
        INFO(provider);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("threads of one rank wait and start at the same time") {
    const auto outcomes = run_ranks({2, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [](int rank) {
        Station station;
        const auto plan = station.ring();
        // The order of starts must be the same on all ranks: one thread starts, others wait.
        constexpr int flights = 40;
        std::vector<std::vector<std::int64_t>> buffers(flights, numbers(2000, rank));
        std::vector<Execution*> executions(flights);
        std::vector<std::atomic<bool>> started(flights);
        std::vector<std::string> wrong(3);
        std::vector<std::thread> waiters;
        for (int t = 0; t < 3; ++t)
            waiters.emplace_back([&, t] {
                for (int i = t; i < flights; i += 3) {
                    while (!started[i]) std::this_thread::yield();
                    try {
                        if (t == 2)
                            while (!station.progress->test(*executions[i])) std::this_thread::yield();
                        else
                            station.progress->wait(*executions[i]);
                        expect_sum(buffers[i], 2, fmt::format("operation {}", i));
                    } catch (const std::exception& error) {
                        wrong[t] = error.what();
                    }
                }
            });
        for (int i = 0; i < flights; ++i) {
            if (i % 5 == rank) std::this_thread::sleep_for(2ms);
            executions[i] = &station.progress->start(plan, 2000, buffers[i].data(), buffers[i].data());
            started[i] = true;
        }
        for (std::thread& waiter : waiters) waiter.join();
        for (const std::string& text : wrong) expect(text.empty(), text);
        station.meet();
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("different counts are a mismatch that says what this rank started") {
    for (const char* provider : providers)
        for (const std::uint64_t other : {999u, 1001u, 500000u}) {
            const auto outcomes = run_ranks(
                {2, {{"HOCKET_PROVIDER_FOR_ALL", provider}, {"HOCKET_TIMEOUT_MS", "5000"}}}, [&](int rank) {
                    Station station;
                    const auto plan = station.ring();
                    const std::uint64_t count = rank == 0 ? 1000 : other;
                    auto values = numbers(std::max(count, other), rank);
                    station.run(plan, values.data(), values.data(), 10);
                    const double begin = test::now_ms();
                    const auto text =
                        failure_of([&] { station.run(plan, values.data(), values.data(), count); });
                    // Each rank's error names both operations, whichever rank noticed. If the other one does
                    // not answer for a second, the error names only the operation of the rank that noticed.
                    const bool has_answer = test::now_ms() - begin < 1000;
                    const auto other_side = fmt::format("int64 sum, {} elements)", other);
                    expect_contains(text,
                                    {"-8:", "ranks 0 and 1 started different operations", "hand.sched:3"});
                    if (has_answer)
                        expect_contains(text, {"all_reduce #1 (hand_ring on 2, int64 sum, 1000 elements)",
                                               other_side.c_str()});
                    expect(failure_of([&] { station.run(plan, values.data(), values.data(), 1); }) == text,
                           "the failure is not final");
                });
            INFO(provider << ", 1000 and " << other << " elements");
            CHECK(test::problems(outcomes) == "");
        }
}

TEST_CASE("a difference that sent no message is noticed with the next operation") {
    const auto outcomes =
        run_ranks({2, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}, {"HOCKET_TIMEOUT_MS", "5000"}}}, [](int rank) {
            Station station;
            auto values = numbers(10, rank);
            // Each rank names itself as the root, sends, and waits for nothing.
            station.run(station.broadcast(rank), values.data(), values.data(), 10);
            const auto text =
                failure_of([&] { station.run(station.ring(), values.data(), values.data(), 10); });
            // A message of the ring reveals a difference; a rank that waits for it gets the details.
            const bool is_told =
                text.find("rank 1 started broadcast #0 (hand_flat on 2, int64 from rank 1") !=
                std::string::npos;
            expect_contains(text, {"-8:", is_told ? "rank 0 started broadcast #0" : "as #1 or earlier"});
        });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("a rank that does not come is a timeout, with the step and its source line") {
    for (const char* provider : providers) {
        const test::Tally ended;
        const auto outcomes = run_ranks({2, {{"HOCKET_PROVIDER_FOR_ALL", provider}}}, [&](int rank) {
            Station station(400ms);
            if (rank == 1) return ended.await(1);
            auto values = numbers(1000, rank);
            const double begin = test::now_ms();
            const auto text =
                failure_of([&] { station.run(station.ring(), values.data(), values.data(), 1000); });
            const double elapsed = test::now_ms() - begin;
            ended.add();
            expect_contains(
                text, {"-7:", "did not finish within 400 ms", "rank 0 was in all_reduce #0 (hand_ring on 2",
                       "step ", " of 5: ", "x[", "rank 1\n  at hand.sched:3: x[r - s] : r +> r + 1"});
            expect(elapsed >= 399, fmt::format("it took {} ms", elapsed));
        });
        INFO(provider);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("many operations in flight do not block each other, however late a rank is") {
    for (const char* provider : providers) {
        const test::Tally started_all;
        const auto outcomes = run_ranks(
            {2, {{"HOCKET_PROVIDER_FOR_ALL", provider}, {"HOCKET_TIMEOUT_MS", "20000"}}}, [&](int rank) {
                Station station;
                const auto plan = station.ring();
                constexpr int starts = 1500;  // with more messages than any queue of a provider holds
                std::vector<decltype(numbers(10, rank))> values;
                std::vector<Execution*> started;
                if (rank == 1) started_all.await(1);
                for (int i = 0; i < starts; ++i) values.push_back(numbers(10, rank));
                for (auto& value : values)
                    started.push_back(&station.progress->start(plan, 10, value.data(), value.data()));
                started_all.add();
                for (Execution* execution : started) station.progress->wait(*execution);
                for (const auto& value : values) expect_sum(value, 2, "one of many");
                station.meet();
            });
        INFO(provider);
        CHECK(test::problems(outcomes) == "");
    }
}

TEST_CASE("a request that is waited for twice is refused, and does no harm") {
    const auto outcomes = run_ranks({2, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [](int rank) {
        Station station;
        const auto plan = station.ring();  // the plan owns the memory of its requests
        auto values = numbers(100, rank);
        Execution& execution = station.progress->start(plan, 100, values.data(), values.data());
        station.progress->wait(execution);
        expect_contains(failure_of([&] { station.progress->wait(execution); }), {"-1:", "not in flight"});
        expect_contains(failure_of([&] { station.progress->test(execution); }), {"-1:", "not in flight"});
        station.meet();
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("a program that computes a bit and tests a bit runs into its deadline too") {
    const test::Tally ended;
    const auto outcomes = run_ranks({2, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [&](int rank) {
        Station station(1s);
        auto values = numbers(100, rank);
        if (rank == 1) return ended.await(1);
        Execution& execution = station.progress->start(station.ring(), 100, values.data(), values.data());
        const auto text = failure_of([&] {
            while (!station.progress->test(execution)) std::this_thread::sleep_for(100ms);
        });
        ended.add();
        expect_contains(text, {"-7:"});
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("the deadline's clock stands still while the application is away") {
    const test::Tally back;
    const auto outcomes = run_ranks({2, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [&](int rank) {
        Station station(rank == 0 ? 2s : 60s);  // rank 1 does not leave, and may wait for long
        auto values = numbers(100000, rank);
        if (rank == 1) back.await(1);
        Execution& execution = station.progress->start(station.ring(), 100000, values.data(), values.data());
        if (rank == 0) std::this_thread::sleep_for(2300ms);
        back.add();
        station.progress->wait(execution);
        expect_sum(values, 2, "after the absence");
        station.meet();
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE(
    "a killed rank is reported by all survivors, long before its heartbeat is missed, by name, step and "
    "line") {
    for (const char* provider : providers) {
        constexpr int ranks = 4;
        auto* time_of_death = static_cast<double*>(test::shared_memory(sizeof(double)));
        const auto outcomes = run_ranks({ranks, {{"HOCKET_PROVIDER_FOR_ALL", provider}}}, [&](int rank) {
            Station station;
            const auto plan = station.ring();
            auto values = numbers(20000, rank);
            const auto text = failure_of([&] {
                for (int i = 0; i < 1000000; ++i) {
                    if (rank == 2 && i == 50) {
                        *time_of_death = test::now_ms();
                        raise(SIGKILL);
                    }
                    station.run(plan, values.data(), values.data(), 20000);
                }
            });
            const double elapsed = test::now_ms() - *time_of_death;
            expect_contains(text, {"-6:", "rank 2 was lost", "hand.sched:", "step ", "all_reduce #"});
            expect(elapsed < 8000,
                   fmt::format("known after {} ms", elapsed));  // the heartbeat's time is 10 s
            station.progress.reset();
            station.fabric.reset();
        });
        INFO(provider);
        CHECK(outcomes[2].signal == SIGKILL);
        for (const int survivor : {0, 1, 3}) CHECK(outcomes[survivor].text == "");
    }
}

TEST_CASE("a rank that reported before it left is not taken for one that only left") {
    const test::Tally told;
    const auto outcomes = run_ranks({2, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [&](int rank) {
        Station station;
        if (rank == 1) return told.await(1);
        LateReport bootstrap(*station.bootstrap);
        auto values = numbers(1000, rank);
        std::string text;
        {
            engine::Progress progress(bootstrap, nullptr, station.fabric.get(), 15s);
            text = failure_of(
                [&] { progress.wait(progress.start(station.ring(), 1000, values.data(), values.data())); });
        }
        told.add();
        expect_contains(text, {"-8:", "rank 1 reported: the counts differ"});
    });
    CHECK(test::problems(outcomes) == "");
}

TEST_CASE("a rank that has left is an error for whoever needs it") {
    const auto outcomes = run_ranks({3, {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}, [](int rank) {
        Station station;
        auto values = numbers(1000, rank);
        station.run(station.ring(), values.data(), values.data(), 1000);
        station.meet();
        if (rank == 1) return station.bootstrap->leave();
        const auto text =
            failure_of([&] { station.run(station.ring(), values.data(), values.data(), 1000); });
        expect_contains(text, {"-6:", "has left the job"});
    });
    CHECK(test::problems(outcomes) == "");
}
