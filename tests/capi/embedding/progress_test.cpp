// Operations that move without calls, waits with a deadline, and aborts.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/embedding/ways.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using namespace std::chrono_literals;

namespace {

// Without a call of Hocket. The job's deadline ends a test that waits for nothing.
template <typename Condition>
void until(Condition condition) {
    while (!condition()) std::this_thread::sleep_for(1ms);
}

// The number of times that the progress thread has gone to sleep. The thread sets its name when it first
// runs.
std::uint64_t sleeps_of_progress_thread() {
    for (;; std::this_thread::sleep_for(1ms))
        for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
            std::ifstream name(task.path() / "comm"), status(task.path() / "status");
            std::string line;
            std::getline(name, line);
            if (line != "hkt-progress") continue;
            while (std::getline(status, line))
                if (line.starts_with("voluntary_ctxt_switches:")) return std::stoull(line.substr(24));
        }
}

}  // namespace

TEST_CASE("with a thread for it, what was started ends while the program computes") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({4, way}, [](int rank) {
            const Comm comm = join_with_thread();
            expect(std::string(hkt_comm_info(comm.get(), "progress")) == "thread", "info");
            constexpr std::size_t count = 1 << 20;
            std::vector<std::int32_t> mine(count), sum(count);
            for (int round = 1; round <= 5; ++round) {
                std::fill(mine.begin(), mine.end(), round * (rank + 1));
                std::fill(sum.begin(), sum.end(), 0);
                hkt_request* request = nullptr;
                must(comm.get(), hkt_all_reduce(mine.data(), sum.data(), count, HKT_INT32, HKT_SUM,
                                                comm.get(), &request));
                const auto has_come = [&](std::size_t i) {
                    return std::atomic_ref(sum[i]).load(std::memory_order_relaxed) == 10 * round;
                };
#ifndef __SANITIZE_THREAD__  // it would warn of the reads of memory that Hocket writes meanwhile
                until([&] { return has_come(0) && has_come(count / 3) && has_come(count - 1); });
#else
                (void)has_come;
#endif
                must(comm.get(), hkt_wait(request));
                for (const std::int32_t value : sum) expect(value == 10 * round, "the sum");
            }
            // Messages, too.
            hkt_request* request = nullptr;
            std::int32_t came = 0;
            const std::int32_t gone = rank;
            must(comm.get(), hkt_recv(&came, 1, HKT_INT32, (rank + 3) % 4, 5, comm.get(), &request));
            must(comm.get(), hkt_send(&gone, 1, HKT_INT32, (rank + 1) % 4, 5, comm.get(), nullptr));
            must(comm.get(), hkt_wait(request));
            expect(came == (rank + 3) % 4, "the message");
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a progress thread sleeps while nothing is in flight") {
    const auto outcomes = run_ranks({2}, [](int) {
        const Comm comm = join_with_thread();
        std::int32_t one = 1, sum = 0;
        hkt_request* request = nullptr;
        must(comm.get(), hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, comm.get(), &request));
        must(comm.get(), hkt_wait(request));
        // It looks for more for a while. All threads may stand still meanwhile, so one look is not enough.
        std::uint64_t before = 0;
        for (int same = 0; same < 4; std::this_thread::sleep_for(100ms)) {
            const std::uint64_t now = sleeps_of_progress_thread();
            same = now == std::exchange(before, now) ? same + 1 : 0;
        }
        must(comm.get(), hkt_barrier(comm.get()));
        must(comm.get(), hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, comm.get(), nullptr));
        expect(sleeps_of_progress_thread() == before, "blocking calls do not wake it");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a communicator with a progress thread goes at once, whatever is in flight") {
    const auto outcomes = run_ranks({2}, [](int rank) {
        Comm comm = join_with_thread();
        std::int32_t one = 1, sum = 0;
        hkt_request* request = nullptr;
        if (rank == 0)
            must(comm.get(), hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, comm.get(), &request));
        std::this_thread::sleep_for(20ms);
        comm.reset();
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a wait with an end breaks nothing") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({2, way}, [](int rank) {
            const Comm comm = join();
            std::vector<std::int64_t> mine(50000, rank + 1), sum(50000);
            for (int round = 0; round < 3; ++round) {
                if (rank == 1) {  // comes when rank 0 has waited in vain
                    std::int32_t go = 0;
                    must(comm.get(), hkt_recv(&go, 1, HKT_INT32, 0, 1, comm.get(), nullptr));
                }
                hkt_request* request = nullptr;
                must(comm.get(), hkt_all_reduce(mine.data(), sum.data(), sum.size(), HKT_INT64, HKT_SUM,
                                                comm.get(), &request));
                if (rank == 0) {
                    expect(hkt_wait_for(request, 30) == HKT_IN_PROGRESS, "nobody else has started");
                    expect(hkt_wait_for(request, 0) == HKT_IN_PROGRESS, "a wait of no time");
                    const std::int32_t go = 1;
                    must(comm.get(), hkt_send(&go, 1, HKT_INT32, 1, 1, comm.get(), nullptr));
                }
                must(comm.get(), hkt_wait_for(request, 60000));
                for (const std::int64_t value : sum) expect(value == 3, "the sum");
            }
            expect(hkt_comm_status(comm.get()) == HKT_SUCCESS, "the communicator");
            hkt_request* request = nullptr;
            must(comm.get(),
                 hkt_all_reduce(mine.data(), sum.data(), 1, HKT_INT64, HKT_SUM, comm.get(), &request));
            failure_of(comm.get(), hkt_wait_for(request, -1), HKT_ERROR_INVALID_ARGUMENT);
            must(comm.get(), hkt_wait(request));
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("one of several requests is waited for") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({2, way}, [](int rank) {
            const Comm comm = join();
            constexpr std::size_t n = 5;
            std::vector<std::int32_t> data(n, -1);
            std::vector<hkt_request*> requests(n, nullptr);
            const std::int32_t order[n] = {3, 0, 4, 1, 2};
            std::size_t index = 99;
            if (rank == 0) {
                for (std::size_t i = 0; i < n; ++i)
                    must(comm.get(), hkt_recv(&data[i], 1, HKT_INT32, 1, static_cast<std::int32_t>(i),
                                              comm.get(), &requests[i]));
                expect(hkt_wait_any(requests.data(), n, 20, &index) == HKT_IN_PROGRESS && index == n,
                       "none has come");
                for (const std::int32_t expected : order) {
                    const std::int32_t go = 1;
                    must(comm.get(), hkt_send(&go, 1, HKT_INT32, 1, 100, comm.get(), nullptr));
                    must(comm.get(), hkt_wait_any(requests.data(), n, 60000, &index));
                    expect(index == static_cast<std::size_t>(expected),
                           "which has come: " + std::to_string(index));
                    must(comm.get(), hkt_test(requests[index]));
                    expect(data[index] == expected, "what has come");
                    requests[index] = nullptr;
                }
                expect(hkt_wait_any(requests.data(), n, 20, &index) == HKT_ERROR_INVALID_ARGUMENT,
                       "all are null");
            } else {
                for (const std::int32_t tag : order) {
                    std::int32_t go = 0;
                    must(comm.get(), hkt_recv(&go, 1, HKT_INT32, 0, 100, comm.get(), nullptr));
                    must(comm.get(), hkt_send(&tag, 1, HKT_INT32, 0, tag, comm.get(), nullptr));
                }
            }
            must(comm.get(), hkt_barrier(comm.get()));
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a barrier that was started ends when every rank has entered it") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({3, way}, [](int rank) {
            const Comm comm = join();
            for (int round = 0; round < 20; ++round) {
                hkt_request* requests[2] = {};
                if (rank == round % 3) {  // the error on the others says that this rank has not entered it
                    const std::int32_t not_yet = 1;
                    for (const int other : {(rank + 1) % 3, (rank + 2) % 3})
                        must(comm.get(), hkt_send(&not_yet, 1, HKT_INT32, other, 1, comm.get(), nullptr));
                    std::int32_t go = 0;
                    for (const int other : {(rank + 1) % 3, (rank + 2) % 3})
                        must(comm.get(), hkt_recv(&go, 1, HKT_INT32, other, 2, comm.get(), nullptr));
                    must(comm.get(), hkt_barrier(comm.get()));
                    must(comm.get(), hkt_barrier_start(comm.get(), &requests[1]));
                } else {
                    std::int32_t not_yet = 0;
                    must(comm.get(), hkt_barrier_start(comm.get(), &requests[0]));
                    must(comm.get(), hkt_barrier_start(comm.get(), &requests[1]));
                    must(comm.get(), hkt_recv(&not_yet, 1, HKT_INT32, round % 3, 1, comm.get(), nullptr));
                    expect(hkt_wait_for(requests[0], 0) == HKT_IN_PROGRESS, "one has not entered it");
                    must(comm.get(), hkt_send(&not_yet, 1, HKT_INT32, round % 3, 2, comm.get(), nullptr));
                    must(comm.get(), hkt_wait(requests[0]));
                }
                must(comm.get(), hkt_wait(requests[1]));
            }
            failure_of(comm.get(), hkt_barrier_start(comm.get(), nullptr), HKT_ERROR_INVALID_ARGUMENT);
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("requests of two communicators are not waited for together") {
    const Comm a = alone(), b = alone();
    std::int32_t to[2] = {};
    hkt_request* requests[2] = {};
    std::size_t index = 0;
    must(a.get(), hkt_recv(&to[0], 1, HKT_INT32, 0, 1, a.get(), &requests[0]));
    must(b.get(), hkt_recv(&to[1], 1, HKT_INT32, 0, 1, b.get(), &requests[1]));
    CHECK(hkt_wait_any(requests, 2, 0, &index) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Catch::Contains("requests[0] and requests[1] are of two communicators"));
    CHECK(hkt_wait_any(requests, 1, 0, &index) == HKT_IN_PROGRESS);
    CHECK(hkt_wait_any(nullptr, 1, 0, &index) == HKT_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("giving up ends all calls, on all ranks") {
    for (const bool has_thread : {false, true})
        for (const auto& way : ways) {
            const Tally met;
            const auto outcomes = run_ranks({3, way}, [&](int rank) {
                const Comm comm = has_thread ? join_with_thread() : join();
                met.meet(3);  // a rank that still joins would fail to
                hkt_comm* const handle = comm.get();
                std::vector<std::thread> threads;
                std::atomic<int> aborted{0};
                if (rank != 2)
                    for (int t = 0; t < 3; ++t)
                        threads.emplace_back([&, t] {
                            std::int32_t value = 0;
                            if (hkt_recv(&value, 1, HKT_INT32, 2, t, handle, nullptr) == HKT_ERROR_ABORTED)
                                ++aborted;
                        });
                std::this_thread::sleep_for(30ms);
                if (rank == 0) must(handle, hkt_comm_abort(handle));
                for (std::thread& thread : threads) thread.join();
                if (rank != 2) expect(aborted == 3, "threads that were told: " + std::to_string(aborted));
                std::int32_t one = 1, sum = 0;
                const std::string text =
                    failure_of(handle, hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, handle, nullptr),
                               HKT_ERROR_ABORTED);
                expect(text.find("rank 0") != std::string::npos, text);
                expect(text.find("hkt_comm_abort was called") != std::string::npos, text);
                must(handle, hkt_comm_abort(handle));  // once more is no mistake
            });
            CHECK(problems(outcomes) == "");
        }
}

TEST_CASE("a communicator is destroyed beside threads that wait") {
    for (int round = 0; round < 10; ++round) {
        const Tally is_over;
        const auto outcomes = run_ranks({2}, [&](int rank) {
            Comm comm = join();
            if (rank == 1) {
                is_over.await(1);
                std::this_thread::sleep_for(50ms);
                return;
            }
            std::vector<std::thread> threads;
            std::atomic<int> about_to_wait{0}, failed{0};
            for (int t = 0; t < 3; ++t)
                threads.emplace_back([&, t, handle = comm.get()] {
                    std::int32_t value = 0;
                    ++about_to_wait;
                    if (hkt_recv(&value, 1, HKT_INT32, 1, t, handle, nullptr) != HKT_SUCCESS) ++failed;
                });
            // No call may begin once the communicator is being destroyed.
            while (about_to_wait < 3) std::this_thread::yield();
            std::this_thread::sleep_for(200ms);
            is_over.add();
            comm.reset();
            for (std::thread& thread : threads) thread.join();
            expect(failed == 3, "calls that failed: " + std::to_string(failed));
        });
        CHECK(problems(outcomes) == "");
    }
}
