// Notification of programs at the end of operations.
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/embedding/ways.hpp"
#include "tests/capi/jobs_at_once.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/once_for_children.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

// An eventfd, for one test.
struct Ends {
    Ends() { expect(fd >= 0, "an eventfd"); }
    ~Ends() { close(fd); }
    Ends(const Ends&) = delete;

    bool is_readable(int timeout_ms) const {
        pollfd entry{fd, POLLIN, 0};
        return poll(&entry, 1, timeout_ms) == 1;
    }
    std::uint64_t read_all() const {
        eventfd_t value = 0;
        return eventfd_read(fd, &value) == 0 ? value : 0;
    }
    // Waits until this many ends have been read; nothing else moves the caller on.
    void wait_for(std::uint64_t number, hkt_comm* comm) const {
        for (std::uint64_t seen = 0; seen < number; seen += read_all())
            expect(is_readable(60000), "an operation's end is told");
#ifdef __SANITIZE_THREAD__
        // The read of the eventfd makes the other thread's earlier writes visible. The sanitizer does not
        // know that, as Hocket uses another descriptor for the same eventfd.
        static_cast<void>(hkt_comm_status(comm));  // any status
#else
        (void)comm;
#endif
    }

    const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
};

hkt_request* receive(hkt_comm* comm, std::int32_t& into, int peer, int tag) {
    hkt_request* request = nullptr;
    must(comm, hkt_recv(&into, 1, HKT_INT32, peer, tag, comm, &request));
    return request;
}

void count_end(void* user) {
    ++*static_cast<std::atomic<int>*>(user);
}

}  // namespace

TEST_CASE("an eventfd is readable once the operation has ended, and not before") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({2, way}, [](int rank) {
            const Comm comm = join_with_thread();
            const Ends ends;
            std::vector<std::int32_t> mine(100'000, rank + 1), sum(100'000);
            std::int32_t go = 0;
            if (rank == 1) must(comm.get(), hkt_recv(&go, 1, HKT_INT32, 0, 1, comm.get(), nullptr));
            hkt_request* request = nullptr;
            must(comm.get(), hkt_all_reduce(mine.data(), sum.data(), sum.size(), HKT_INT32, HKT_SUM,
                                            comm.get(), &request));
            must(comm.get(), hkt_request_eventfd(request, ends.fd));
            if (rank == 0) {
                expect(!ends.is_readable(20), "rank 1 has not started");
                must(comm.get(), hkt_send(&go, 1, HKT_INT32, 1, 1, comm.get(), nullptr));
            }
            ends.wait_for(1, comm.get());
            expect(sum.front() == 3 && sum.back() == 3, "the sum is there");
            must(comm.get(), hkt_test(request));
            must(comm.get(), hkt_barrier(comm.get()));
            expect(ends.read_all() == 0, "told once");
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("one eventfd counts the ends of many requests, also after the program has closed its own") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({3, way}, [](int rank) {
            const Comm comm = join_with_thread();
            constexpr int n = 50;
            const Ends ends;
            std::vector<std::int32_t> values(2 * n);
            std::vector<hkt_request*> requests(2 * n);
            const std::int32_t one = 1;
            for (int i = 0; i < n; ++i) {
                const int of_program = dup(ends.fd);
                requests[static_cast<std::size_t>(2 * i)] =
                    receive(comm.get(), values[static_cast<std::size_t>(2 * i)], (rank + 1) % 3, i);
                must(comm.get(),
                     hkt_all_reduce(&one, &values[static_cast<std::size_t>(2 * i + 1)], 1, HKT_INT32, HKT_SUM,
                                    comm.get(), &requests[static_cast<std::size_t>(2 * i + 1)]));
                for (int which : {2 * i, 2 * i + 1})
                    must(comm.get(),
                         hkt_request_eventfd(requests[static_cast<std::size_t>(which)], of_program));
                close(of_program);
            }
            for (std::int32_t i = 0; i < n; ++i)
                must(comm.get(), hkt_send(&i, 1, HKT_INT32, (rank + 2) % 3, i, comm.get(), nullptr));
            ends.wait_for(2 * n, comm.get());
            for (int i = 0; i < n; ++i) {
                expect(values[static_cast<std::size_t>(2 * i)] == i, "what was received");
                expect(values[static_cast<std::size_t>(2 * i + 1)] == 3, "the sum");
            }
            for (hkt_request* const request : requests) must(comm.get(), hkt_test(request));
        });
        CHECK(problems(outcomes) == "");
    }
}

namespace {

// Sums one after another: each is started by the callback of the one before.
struct Chain {
    hkt_comm* comm;
    int left;
    std::int32_t one = 1, sum = 0;
    hkt_request* request = nullptr;
    std::string wrong = {};
    std::thread::id thread = {};
    std::mutex mutex = {};
    std::condition_variable changed = {};

    void start() {
        sum = 0;
        must(comm, hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, comm, &request));
        must(comm, hkt_request_callback(request, &Chain::ended, this));
    }

    static void ended(void* user) {
        auto& chain = *static_cast<Chain*>(user);
        const std::lock_guard lock(chain.mutex);
        try {
            must(chain.comm, hkt_wait(chain.request));
            expect(chain.sum == hkt_comm_size(chain.comm), "the sum");
            chain.thread = std::this_thread::get_id();
            if (--chain.left > 0) return chain.start();
        } catch (const std::exception& error) {
            chain.wrong = error.what();
            chain.left = 0;
        }
        chain.changed.notify_one();
    }
};

}  // namespace

TEST_CASE("a callback waits for its request, and starts the next operation") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({3, way}, [](int) {
            const Comm comm = join_with_thread();
            Chain chain{.comm = comm.get(), .left = 100};
            std::unique_lock lock(chain.mutex);
            chain.start();
            expect(chain.changed.wait_for(lock, std::chrono::seconds(60), [&] { return chain.left == 0; }),
                   "the last callback is called");
            expect(chain.wrong.empty(), chain.wrong);
            expect(chain.thread != std::this_thread::get_id(), "a thread of its own");
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a callback is called once, whoever waits for the request and however early that is") {
    const auto outcomes = run_ranks({2}, [](int) {
        Comm comm = join();
        std::atomic<int> calls{0};
        const std::int32_t one = 1;
        std::int32_t sum = 0;
        for (int round = 0; round < 200; ++round) {
            hkt_request* request = nullptr;
            must(comm.get(), hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, comm.get(), &request));
            must(comm.get(), hkt_request_callback(request, count_end, &calls));
            if (round % 2) must(comm.get(), hkt_request_callback(request, count_end, &calls));
            must(comm.get(), hkt_wait(request));
        }
        comm.reset();
        expect(calls == 300, "calls: " + std::to_string(calls));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("an operation that has ended tells at once") {
    const Comm comm = alone();
    const Ends ends;
    std::atomic<int> calls{0};
    const std::int32_t one = 1;
    std::int32_t sum = 0;
    hkt_request* request = nullptr;
    must(comm.get(), hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, comm.get(), &request));
    must(comm.get(), hkt_request_eventfd(request, ends.fd));
    CHECK(ends.read_all() == 1);
    must(comm.get(), hkt_request_callback(request, count_end, &calls));
    CHECK(eventually([&] { return calls == 1; }));
    must(comm.get(), hkt_test(request));
}

TEST_CASE("a failure is an end that is told, too") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({3, way}, [](int rank) {
            const Comm comm = join_with_thread();
            std::int32_t go = 0;
            if (rank == 1) {  // dies once the others wait
                for (const int other : {0, 2})
                    must(comm.get(), hkt_recv(&go, 1, HKT_INT32, other, 2, comm.get(), nullptr));
                kill(getpid(), SIGKILL);
            }
            const Ends ends;
            std::atomic<int> calls{0};
            std::int32_t value = 0;
            hkt_request* const request = receive(comm.get(), value, rank == 0 ? 2 : 0, 1);
            must(comm.get(), hkt_request_eventfd(request, ends.fd));
            must(comm.get(), hkt_request_callback(request, count_end, &calls));
            // Rank 1 may have it, and be dead, before this rank knows that it has gone.
            const hkt_status told = hkt_send(&go, 1, HKT_INT32, 1, 2, comm.get(), nullptr);
            expect(told == HKT_SUCCESS || told == HKT_ERROR_PEER_LOST, "the word to rank 1");
            ends.wait_for(1, comm.get());
            expect(eventually([&] { return calls == 1; }), "the callback");
            failure_of(comm.get(), hkt_wait(request), HKT_ERROR_PEER_LOST);
        });
        CHECK(problems(outcomes) == "rank 1: killed\n");
    }
}

TEST_CASE("a callback does not destroy its communicator, and what is in flight then tells nobody") {
    std::atomic<int> calls{0};
    Comm comm = alone();
    std::int32_t sum = 0;
    const std::int32_t one = 1;
    hkt_request *request = nullptr, *never = receive(comm.get(), sum, 0, 1);
    must(comm.get(), hkt_request_callback(never, count_end, &calls));
    must(comm.get(), hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, comm.get(), &request));
    must(comm.get(),
         hkt_request_callback(
             request, [](void* user) { hkt_comm_destroy(static_cast<hkt_comm*>(user)); }, comm.get()));
    must(comm.get(), hkt_wait(request));
    must(comm.get(), hkt_barrier(comm.get()));
    comm.reset();
    CHECK(calls == 0);
}

TEST_CASE("what cannot tell of an end is refused, with words that name it") {
    const Comm comm = alone();
    std::int32_t value = 0;
    hkt_request* const request = receive(comm.get(), value, 0, 1);
    const auto refusal = [&](hkt_status status) {
        return failure_of(comm.get(), status, HKT_ERROR_INVALID_ARGUMENT);
    };
    int pipe_ends[2];
    REQUIRE(pipe(pipe_ends) == 0);
    CHECK_THAT(refusal(hkt_request_eventfd(request, pipe_ends[1])),
               Catch::Contains("hkt_request_eventfd") && Catch::Contains("is no eventfd"));
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    CHECK_THAT(refusal(hkt_request_eventfd(request, pipe_ends[1])), Catch::Contains("is not open"));
    CHECK_THAT(refusal(hkt_request_eventfd(request, -1)), Catch::Contains("is not open"));
    CHECK_THAT(refusal(hkt_request_callback(request, nullptr, nullptr)), Catch::Contains("function is null"));
    CHECK(hkt_request_callback(nullptr, count_end, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Catch::Contains("hkt_request_callback: the request is null"));
    CHECK(hkt_request_eventfd(nullptr, 0) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Catch::Contains("hkt_request_eventfd: the request is null"));

    const std::int32_t one = 1;
    must(comm.get(), hkt_send(&one, 1, HKT_INT32, 0, 1, comm.get(), nullptr));
    must(comm.get(), hkt_wait(request));
    const Ends ends;
    CHECK_THAT(refusal(hkt_request_eventfd(request, ends.fd)), Catch::Contains("not in flight"));
}

TEST_CASE("who starts an operation after others have given it up hears why, and gets no result") {
    const std::size_t jobs = ways.size();
    const JobsAtOnce at_once(jobs, 2);
    const std::vector<Tally> have_failed(jobs);
    load_libfabric_for_children();
    const auto outcomes =
        run_ranks({static_cast<int>(2 * jobs), {{"HOCKET_TIMEOUT_MS", "3000"}}}, [&](int process) {
            const auto job = static_cast<std::size_t>(process) / 2;
            const int rank = process % 2;
            for (const auto& [name, value] : ways[job]) setenv(name.c_str(), value.c_str(), 1);
            const Comm comm = at_once.join(job, rank);
            must(comm.get(), hkt_barrier(comm.get()));
            if (rank == 1) {
                have_failed[job].await(1);
                std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // until the report has come
            }
            // Rank 0's message has arrived.
            double value = 1;
            const hkt_status status =
                hkt_all_reduce(&value, &value, 1, HKT_FLOAT64, HKT_SUM, comm.get(), nullptr);
            failure_of(comm.get(), status, HKT_ERROR_TIMEOUT);
            have_failed[job].add();
        });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a rank that destroys its communicator while another one uses it is said to do that") {
    // The report of the other rank's action may arrive too late to be in the error.
    for (const auto& way : ways) {
        auto* const is_said = static_cast<std::atomic<bool>*>(shared_memory(sizeof(std::atomic<bool>)));
        for (int round = 0; round < 10 && !*is_said; ++round) {
            const auto outcomes = run_ranks({2, way}, [&](int rank) {
                const Comm comm = join();
                must(comm.get(), hkt_barrier(comm.get()));
                if (rank == 1) return;
                double value = 1;
                const std::string text = failure_of(
                    comm.get(), hkt_all_reduce(&value, &value, 1, HKT_FLOAT64, HKT_SUM, comm.get(), nullptr),
                    HKT_ERROR_MISMATCH);
                *is_said = text.find("rank 1 destroyed its communicator, which rank 0 still uses") !=
                           std::string::npos;
            });
            CHECK(problems(outcomes) == "");
        }
        CHECK(*is_said);
    }
}
