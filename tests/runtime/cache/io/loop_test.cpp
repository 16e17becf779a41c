// The loop itself: its queue, its timers, calls from other threads, and its end.
#include "runtime/cache/io/loop.hpp"
#include "runtime/base/thread.hpp"

#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <condition_variable>
#include <fstream>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/runtime/cache/io/loop_run.hpp"

using namespace hocket::cache;
using namespace hocket::test;
using namespace std::chrono_literals;

namespace {

Task<int> immediate(int value) {
    co_return value;
}

Task<> push_after(Loop& loop, std::chrono::milliseconds time, int value, std::vector<int>& to) {
    co_await loop.delay(time);
    to.push_back(value);
}

Task<> hop(Loop& loop, std::thread::id thread, int times, std::atomic<int>& done) {
    for (int i = 0; i < times; ++i) {
        const int got = co_await loop.on_worker([i] { return i; });
        if (got == i && std::this_thread::get_id() == thread) ++done;
    }
}

double cpu_seconds() {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Writes that the calling thread has asked of the kernel; -1: the kernel does not count.
long writes_of_thread() {
    std::ifstream counts("/proc/thread-self/io");
    for (std::string word; counts >> word;)
        if (word == "syscw:") return counts >> word ? std::stol(word) : -1;
    return -1;
}

// Counts those that exist.
struct Tracked {
    explicit Tracked(int& count) : count(count) { ++count; }
    Tracked(const Tracked& other) : count(other.count) { ++count; }
    ~Tracked() { --count; }
    int& count;
};

Task<> hold(Tracked tracked, Loop& loop) {
    const Tracked local = tracked;
    co_await loop.delay(1ms);
    if (local.count > 0) throw std::runtime_error("from a coroutine");
}

}  // namespace

TEST_CASE("a loop that has nothing to do ends when it is told to, before or after") {
    FOR_EACH_KIND(kind);
    LoopRun stopped_before(kind), stopped_after(kind);
    stopped_before.loop.stop();
    stopped_before.loop.run();
    std::thread stopper([&] { stopped_after.loop.stop(); });
    stopped_after.loop.run();
    stopper.join();
    CHECK(stopped_after.loop.tasks() == 0);
}

TEST_CASE("a stopped loop runs on until its tasks have ended, and what was posted before is run") {
    FOR_EACH_KIND(kind);
    LoopRun run(kind);
    std::vector<int> order;
    run.loop.spawn(push_after(run.loop, 20ms, 3, order));
    run.loop.post([&] { order.push_back(1); });
    run.loop.post([&] {
        order.push_back(2);
        run.loop.spawn(push_after(run.loop, 40ms, 4, order));
    });
    run.loop.stop();
    CHECK(run.loop.tasks() == 1);
    run.loop.run();
    CHECK(order == std::vector<int>{1, 2, 3, 4});
    CHECK(run.loop.tasks() == 0);
}

TEST_CASE("delays end in the order of their times, and not before") {
    FOR_EACH_KIND(kind);
    LoopRun run(kind);
    std::vector<int> order;
    run.run([&]() -> Task<> {
        const auto begin = Loop::Clock::now();
        for (const int time : {30, 10, 20, 0, 10})
            run.loop.spawn(push_after(run.loop, std::chrono::milliseconds(time), time, order));
        co_await run.loop.delay(40ms);
        CHECK(Loop::Clock::now() - begin >= 40ms);
    });
    CHECK(order == std::vector<int>{0, 10, 10, 20, 30});
}

TEST_CASE("delays of one time end in the order they came") {
    FOR_EACH_KIND(kind);
    LoopRun run(kind);
    std::vector<int> order, expected;
    const auto when = Loop::Clock::now();
    run.run([&]() -> Task<> {
        for (int i = 0; i < 50; ++i) {
            expected.push_back(i);
            run.loop.spawn(push_after(run.loop, 0ms, i, order));
        }
        while (order.size() < 50) co_await run.loop.delay(1ms);
        CHECK(Loop::Clock::now() > when);
    });
    CHECK(order == expected);
}

TEST_CASE("posts of many threads are all run, each thread's in order, on the loop's thread") {
    FOR_EACH_KIND(kind);
    LoopRun run(kind);
    constexpr int threads = 4, each = 5000;
    std::vector<int> next(threads);
    int wrong = 0, ended = 0;
    const auto here = std::this_thread::get_id();
    std::vector<std::thread> posters;
    for (std::size_t t = 0; t < threads; ++t)
        posters.emplace_back([&, t] {
            for (int i = 0; i < each; ++i)
                run.loop.post([&, t, i] { wrong += next[t]++ != i || std::this_thread::get_id() != here; });
            run.loop.post([&] {
                if (++ended == threads) run.loop.stop();
            });
        });
    run.loop.run();
    for (std::thread& thread : posters) thread.join();
    CHECK(wrong == 0);
    CHECK(next == std::vector<int>(threads, each));
}

TEST_CASE("a loop that is awake is not woken, and one that sleeps once") {
    if (writes_of_thread() < 0) HOCKET_SKIP("the kernel does not count system calls in /proc/thread-self/io");
    if (!has_ring()) HOCKET_SKIP("io_uring is not available here");
    LoopRun run(IoKind::ring);
    int count = 0;
    const auto post_many = [&] {
        const long before = writes_of_thread();
        for (int i = 0; i < 1000; ++i) run.loop.post([&] { ++count; });
        return writes_of_thread() - before;
    };
    long while_awake = -1;
    run.loop.post([&] { std::thread([&] { while_awake = post_many(); }).join(); });
    std::thread loop_thread([&] { run.loop.run(); });
    std::atomic<bool> is_blocked = false, may_go = false;
    run.loop.post([&] {
        is_blocked = true;
        while (!may_go) std::this_thread::yield();
    });
    while (!is_blocked) std::this_thread::yield();
    CHECK(while_awake == 0);
    may_go = true;
    std::this_thread::sleep_for(10ms);  // asleep by now; if it is not, it costs less
    const long before = writes_of_thread();
    run.loop.post([&] { ++count; });
    CHECK(writes_of_thread() - before <= 1);
    run.loop.stop();
    loop_thread.join();
    CHECK(count == 1001);
}

TEST_CASE("a loop without work uses no processor") {
    FOR_EACH_KIND(kind);
    LoopRun run(kind);
    run.run([&]() -> Task<> {
        co_await run.loop.on_worker([] {});  // so that wakes have been dealt with
        const double before = cpu_seconds();
        co_await run.loop.delay(300ms);
        // Processor time, not the clock's: a busy wait would take all of the 300 ms.
        CHECK(cpu_seconds() - before < 0.1);
        const double stopped = cpu_seconds();
        run.loop.stop();
        co_await run.loop.delay(300ms);
        CHECK(cpu_seconds() - stopped < 0.1);
    });
}

TEST_CASE("a worker's result or exception comes back to the loop's thread") {
    FOR_EACH_KIND(kind);
    LoopRun run(kind);
    run.run([&]() -> Task<> {
        const auto here = std::this_thread::get_id();
        const std::string text(100, 'x');
        CHECK_RESULT(run.loop.on_worker([&] { return text + "y"; }), text + "y");
        const std::thread::id there = co_await run.loop.on_worker([] { return std::this_thread::get_id(); });
        CHECK(there != here);
        CHECK(std::this_thread::get_id() == here);
        const std::function<std::unique_ptr<int>()> make = [] { return std::make_unique<int>(7); };
        const std::unique_ptr<int> moved = co_await run.loop.on_worker(std::ref(make));
        CHECK(*moved == 7);
        bool is_run = false;
        co_await run.loop.on_worker([&] { is_run = true; });
        CHECK(is_run);
        std::string thrown;
        try {
            co_await run.loop.on_worker(
                [&]() -> int { throw std::runtime_error("from the worker: " + text); });
        } catch (const std::runtime_error& error) {
            thrown = error.what();
        }
        CHECK(thrown == "from the worker: " + text);
        CHECK(std::this_thread::get_id() == here);
    });
}

TEST_CASE("many tasks use the workers at once") {
    FOR_EACH_KIND(kind);
    LoopRun run(kind);
    std::atomic<int> done = 0;
    for (int i = 0; i < 50; ++i) run.loop.spawn(hop(run.loop, std::this_thread::get_id(), 100, done));
    run.loop.stop();
    run.loop.run();
    CHECK(done == 5000);
}

TEST_CASE("a loop may be gone as soon as its last worker's call is back") {
    FOR_EACH_KIND(kind);
    const Files files;
    Workers workers(2);
    for (int i = 0; i < 300; ++i) {
        std::atomic<int> done = 0;
        Loop loop(files, kind, 1, workers);
        loop.spawn(hop(loop, std::this_thread::get_id(), 1, done));
        loop.stop();
        loop.run();
        CHECK(done == 1);
    }
}

TEST_CASE("a loop may be made on one thread, run on another, and freed on the first") {
    FOR_EACH_KIND(kind);
    LoopRun run(kind);
    std::vector<int> order;
    run.loop.spawn(push_after(run.loop, 1ms, 1, order));
    std::thread thread = hocket::start_thread("hkt-cache", [&] { run.loop.run(); });
    run.loop.post([&] { run.loop.spawn(push_after(run.loop, 1ms, 2, order)); });
    run.loop.stop();
    thread.join();
    CHECK(order == std::vector<int>{1, 2});
}

TEST_CASE("awaiting a million tasks that end at once does not use up the stack") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
    HOCKET_SKIP("GCC makes the resumption a tail call only when it optimises, and not under the sanitizers");
#endif
    LoopRun run(IoKind::threads);
    std::int64_t sum = 0;
    run.run([&]() -> Task<> {
        for (int i = 0; i < 1'000'000; ++i) sum += co_await immediate(i);
    });
    CHECK(sum == 499'999'500'000);
}

TEST_CASE("an exception frees what the coroutines hold, and reaches who awaits them") {
    FOR_EACH_KIND(kind);
    int count = 0;
    LoopRun run(kind);
    run.run([&]() -> Task<> {
        std::string thrown;
        try {
            co_await hold(Tracked(count), run.loop);
        } catch (const std::runtime_error& error) {
            thrown = error.what();
        }
        CHECK(thrown == "from a coroutine");
        CHECK(count == 0);
        const Task<> never_awaited = hold(Tracked(count), run.loop);
        CHECK(count == 1);
    });
    CHECK(count == 0);
}

TEST_CASE("an exception that leaves a spawned task ends the process") {
    const int status = status_of_child([] {
        std::freopen("/dev/null", "w", stderr);
        int count = 0;
        LoopRun run(IoKind::threads);
        run.loop.spawn(hold(Tracked(count), run.loop));
        run.loop.stop();
        run.loop.run();
        return true;
    });
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
}
