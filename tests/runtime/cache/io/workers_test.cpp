#include "runtime/cache/io/workers.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <semaphore>
#include <set>
#include <vector>

#include "runtime/base/error.hpp"
#include "tests/runtime/cache/io/loop_run.hpp"

using namespace hocket::cache;
using namespace hocket::test;

namespace {

// Waits until it may go, for ten seconds at most.
struct Held final : Job {
    std::binary_semaphore go{0}, running{0};
    std::atomic<bool> done = false;
    void run() noexcept override {
        running.release();
        done = go.try_acquire_for(std::chrono::seconds(10));
    }
};

template <typename Call>
struct Called final : Job {
    explicit Called(Call call) : call(std::move(call)) {}
    Call call;
    std::binary_semaphore done{0};
    void run() noexcept override {
        call();
        done.release();
    }
};

std::string name_of_thread() {
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    return name;
}

}  // namespace

TEST_CASE("workers are started when none is idle, up to the most there may be") {
    std::vector<Held> jobs(5);
    Workers workers(3);
    CHECK(workers.threads() == 0);
    for (std::size_t i = 0; i < 5; ++i) {
        workers.submit(jobs[i]);
        CHECK(workers.threads() == std::min<std::size_t>(i + 1, 3));
    }
    for (std::size_t i = 0; i < 3; ++i) jobs[i].running.acquire();
    CHECK_FALSE(jobs[3].running.try_acquire());
    jobs[1].go.release();
    jobs[3].running.acquire();  // in the order they came
    CHECK_FALSE(jobs[4].running.try_acquire());
    for (Held& job : jobs) job.go.release();
}

TEST_CASE("the end of the workers waits for all jobs") {
    std::vector<Held> jobs(100);
    {
        Workers workers(2);
        for (Held& job : jobs) workers.submit(job);
        for (Held& job : jobs) job.go.release();
    }
    for (const Held& job : jobs) CHECK(job.done);
}

TEST_CASE("a worker has a name, takes no signals, and stays") {
    std::string name;
    sigset_t blocked;
    std::set<pthread_t> threads;
    Called job([&] {
        name = name_of_thread();
        pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
        threads.insert(pthread_self());
    });
    Workers workers;
    for (int i = 0; i < 100; ++i) {
        workers.submit(job);
        job.done.acquire();
    }
    CHECK(name == "hkt-cache-work");
    for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGPIPE, SIGALRM})
        CHECK(sigismember(&blocked, number) == 1);
    sigset_t own;
    pthread_sigmask(SIG_BLOCK, nullptr, &own);
    CHECK(sigismember(&own, SIGUSR1) == 0);
    // A worker may not be idle again when the next job comes, so there may be two, but not one for each job.
    CHECK(threads.size() < 10);
}

TEST_CASE("jobs from many threads are all done") {
    struct Counting final : Job {
        std::atomic<int>* count = nullptr;
        void run() noexcept override { ++*count; }
    };
    std::atomic<int> count = 0;
    std::vector<Counting> jobs(8000);
    {
        Workers workers(4);
        std::vector<std::thread> submitters;
        for (std::size_t t = 0; t < 4; ++t)
            submitters.emplace_back([&, t] {
                for (std::size_t i = t; i < jobs.size(); i += 4) {
                    jobs[i].count = &count;
                    workers.submit(jobs[i]);
                }
            });
        for (std::thread& thread : submitters) thread.join();
    }
    CHECK(count == 8000);
}

TEST_CASE("without a thread to be had, the error says what to raise") {
    // RLIMIT_NPROC does not bind root: the child becomes another user, who has no process yet.
    const int status = status_of_child([] {
        const rlimit none{1, 1};
        if (getuid() == 0 && setuid(61'234) != 0) return false;
        if (setrlimit(RLIMIT_NPROC, &none) != 0) return false;
        Held job;
        try {
            Workers workers;
            job.go.release();
            workers.submit(job);
        } catch (const hocket::Error& error) {
            return error.status() == hocket::Status::out_of_memory &&
                   std::string(error.what()).find("hkt-cache-work") != std::string::npos &&
                   std::string(error.what()).find("ulimit -u") != std::string::npos;
        }
        return false;
    });
    CHECK(status == 0);
}
