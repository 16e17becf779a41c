// Shared by the tests of files and of the loop: memory that frees itself, a loop that runs one coroutine,
// a child process.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/cache/io/loop.hpp"
#include "tests/support/going_on.hpp"
#include "tests/support/test.hpp"

// The rest of the test case runs once for each way of doing I/O.
#define FOR_EACH_KIND(kind)                                                                  \
    const auto kind = GENERATE(hocket::cache::IoKind::ring, hocket::cache::IoKind::threads); \
    if (kind == hocket::cache::IoKind::ring && !hocket::test::has_ring())                    \
    HOCKET_SKIP("io_uring is not available here: only threads are tested")

// In a coroutine. Catch's own macros name their expression several times, and GCC 12 awaits it each time.
#define CHECK_RESULT(awaitable, expected)        \
    do {                                         \
        const auto result_ = co_await awaitable; \
        CHECK(result_ == (expected));            \
    } while (false)

namespace hocket::test {

struct Freed {
    void operator()(void* memory) const { std::free(memory); }
};

// Runs one coroutine to its end, on the calling thread; run() throws its exception.
struct LoopRun {
    cache::Files files;
    cache::Workers workers;
    cache::Loop loop;

    explicit LoopRun(cache::IoKind kind, cache::FaultHook hook = nullptr, unsigned depth = 64)
        : files(std::move(hook)), loop(files, kind, depth, workers) {}

    template <typename Body>
    void run(Body body) {
        std::exception_ptr thrown;
        loop.spawn(guarded(body, thrown));
        loop.run();
        if (thrown) std::rethrow_exception(thrown);
    }

  private:
    template <typename Body>
    cache::Task<> guarded(Body& body, std::exception_ptr& thrown) {
        try {
            co_await body();
        } catch (...) {
            thrown = std::current_exception();
        }
        loop.stop();
    }
};

inline bool has_ring() {
    try {
        const LoopRun run(cache::IoKind::ring);
        return true;
    } catch (const Error&) {
        return false;
    }
}

// The wait status of a child that runs the body: 0 if it returns true. The caller has no other thread.
inline int status_of_child(const std::function<bool()>& body) {
    const pid_t pid = hocket::test::fork_to_go_on();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        signal(SIGALRM, SIG_DFL);
        alarm(60);
        bool is_right = false;
        try {
            is_right = body();
        } catch (const std::exception& error) {
            std::fprintf(stderr, "child: %s\n", error.what());
        }
        _exit(is_right ? 0 : 1);
    }
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    return status;
}

}  // namespace hocket::test
