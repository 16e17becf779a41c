// Waits that a signal ends.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "tests/capi/comm.hpp"
#include "tests/capi/embedding/ways.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using namespace std::chrono_literals;

namespace {

volatile sig_atomic_t signals = 0;

// Each signal ends one wait.
int has_signal(void* asked) {
    ++*static_cast<std::atomic<int>*>(asked);
    if (signals == 0) return 0;
    signals = 0;
    return 1;
}

hkt_comm_options interruptible(std::atomic<int>& asked) {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.is_interrupted = has_signal;
    options.interrupt_user = &asked;
    return options;
}

// Sends this thread a signal once it has been asked `times` more times: then it waits.
std::thread signal_when_asked(std::atomic<int>& asked, int times) {
    return std::thread([&asked, until = asked + times, waits = pthread_self()] {
        while (asked < until) std::this_thread::sleep_for(1ms);
        pthread_kill(waits, SIGUSR1);
    });
}

enum class By { wait, wait_for, wait_any };

hkt_status wait(By by, hkt_request* request) {
    std::size_t index = 7;
    switch (by) {
        case By::wait:
            return hkt_wait(request);
        case By::wait_for:
            return hkt_wait_for(request, 80'000'000);
        case By::wait_any:
            const hkt_status status = hkt_wait_any(&request, 1, 80'000'000, &index);
            if (status != HKT_SUCCESS) {
                expect(index == 1, "the place of none");
                return status;
            }
            expect(index == 0, "the place");
            return hkt_wait(request);
    }
    return HKT_ERROR_INTERNAL;
}

// Rank 1 sends the message that rank 0 waits for only after rank 0 has been interrupted and has reported it.
void interrupt_a_wait(hkt_comm* comm, std::atomic<int>& asked, By by) {
    std::int32_t word = 0;
    if (hkt_comm_rank(comm) == 1) {
        must(comm, hkt_recv(&word, 1, HKT_INT32, 0, 1, comm, nullptr));
        must(comm, hkt_send(&word, 1, HKT_INT32, 0, 2, comm, nullptr));
    } else if (hkt_comm_rank(comm) == 0) {
        hkt_request* request = nullptr;
        must(comm, hkt_recv(&word, 1, HKT_INT32, 1, 2, comm, &request));
        std::thread other = signal_when_asked(asked, 2);
        const hkt_status status = wait(by, request);
        other.join();
        expect(status == HKT_ERROR_INTERRUPTED, hkt_error_string(status));
        const std::string text = hkt_comm_last_error(comm);
        expect(text.find("is_interrupted has ended the wait") != std::string::npos, text);
        expect(hkt_comm_status(comm) == HKT_SUCCESS, "the communicator works");
        const std::int32_t answer = 42;
        must(comm, hkt_send(&answer, 1, HKT_INT32, 1, 1, comm, nullptr));
        must(comm, wait(by, request));
        expect(word == 42, "the message");
    }
    must(comm, hkt_barrier(comm));
}

// Rank 0 joins an all-reduce and a receive into one request, and its wait is interrupted. Only then does rank
// 1 start the all-reduce and send.
void interrupt_several(hkt_comm* comm, std::atomic<int>& asked) {
    const int rank = hkt_comm_rank(comm);
    std::int32_t one = 1, sum = 0, word = 0;
    hkt_request* both[2] = {};
    const auto start = [&] { must(comm, hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, comm, &both[0])); };
    if (rank == 1) must(comm, hkt_recv(&word, 1, HKT_INT32, 0, 1, comm, nullptr));
    start();
    if (rank != 0) {
        if (rank == 1) must(comm, hkt_send(&word, 1, HKT_INT32, 0, 2, comm, nullptr));
        must(comm, hkt_wait(both[0]));
    } else {
        must(comm, hkt_recv(&word, 1, HKT_INT32, 1, 2, comm, &both[1]));
        hkt_request* joined = nullptr;
        must(comm, hkt_request_join(both, 2, &joined));
        std::thread other = signal_when_asked(asked, 2);
        const hkt_status status = hkt_wait(joined);
        other.join();
        expect(status == HKT_ERROR_INTERRUPTED, hkt_error_string(status));
        const std::int32_t answer = 42;
        must(comm, hkt_send(&answer, 1, HKT_INT32, 1, 1, comm, nullptr));
        must(comm, hkt_wait(joined));
        expect(word == 42, "the message");
    }
    expect(sum == hkt_comm_size(comm), "the sum");
}

}  // namespace

TEST_CASE("a signal ends a wait, and nothing else") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({3, way}, [](int) {
            signal(SIGUSR1, [](int) { signals = 1; });
            std::atomic<int> asked = 0;
            const hkt_comm_options options = interruptible(asked);
            const Comm comm = join(&options);
            for (const By by : {By::wait, By::wait_for, By::wait_any})
                interrupt_a_wait(comm.get(), asked, by);
            interrupt_several(comm.get(), asked);
            // A group asks the same.
            hkt_comm* group = nullptr;
            must(comm.get(), hkt_comm_split(comm.get(), 0, 0, &group));
            interrupt_a_wait(group, asked, By::wait);
            hkt_comm_destroy(group);
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a program that waits in short turns is asked in each of them") {
    const auto outcomes = run_ranks({1}, [](int) {
        std::atomic<int> asked = 0;
        const hkt_comm_options options = interruptible(asked);
        const Comm comm = join(&options);
        std::int32_t word = 0;
        hkt_request* request = nullptr;
        must(comm.get(), hkt_recv(&word, 1, HKT_INT32, 0, 1, comm.get(), &request));
        for (int turn = 1; turn <= 5; ++turn) {
            expect(hkt_wait_for(request, 5) == HKT_IN_PROGRESS, "nothing has come");
            // A turn may be over before it has begun to wait, or be long enough to ask twice.
            expect(asked >= turn - 1,
                   "asked " + std::to_string(asked) + " times in turn " + std::to_string(turn));
        }
        signals = 1;
        expect(hkt_wait_for(request, 5) == HKT_ERROR_INTERRUPTED, "in a short turn");
        must(comm.get(), hkt_send(&word, 1, HKT_INT32, 0, 1, comm.get(), nullptr));
        must(comm.get(), hkt_wait(request));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("of two threads that wait, the one that is asked for is interrupted") {
    const auto outcomes = run_ranks({2}, [](int rank) {
        signal(SIGUSR1, [](int) { signals = 1; });
        // Says for each thread by itself whether it is to stop.
        static thread_local std::atomic<int>* own = nullptr;
        hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
        options.is_interrupted = [](void*) { return own == nullptr ? 0 : has_signal(own); };
        const Comm comm = join(&options);
        std::int32_t words[3] = {1, 0, 0};
        if (rank == 1) {
            must(comm.get(), hkt_recv(&words[0], 1, HKT_INT32, 0, 0, comm.get(), nullptr));
            for (const int tag : {1, 2})
                must(comm.get(), hkt_send(&words[0], 1, HKT_INT32, 0, tag, comm.get(), nullptr));
            return;
        }
        hkt_request *stays = nullptr, *ends = nullptr;
        must(comm.get(), hkt_recv(&words[1], 1, HKT_INT32, 1, 1, comm.get(), &stays));
        must(comm.get(), hkt_recv(&words[2], 1, HKT_INT32, 1, 2, comm.get(), &ends));
        std::string problem;
        std::thread other([&] {
            if (hkt_wait(stays) != HKT_SUCCESS) problem = hkt_comm_last_error(comm.get());
        });
        std::this_thread::sleep_for(100ms);  // so that it drives, and this one follows
        std::atomic<int> asked = 0;
        own = &asked;
        std::thread signaller = signal_when_asked(asked, 2);
        const hkt_status status = hkt_wait(ends);
        signaller.join();
        must(comm.get(), hkt_send(&words[0], 1, HKT_INT32, 1, 0, comm.get(), nullptr));
        other.join();
        expect(status == HKT_ERROR_INTERRUPTED, hkt_error_string(status));
        expect(problem.empty(), problem);
        must(comm.get(), hkt_wait(ends));
        expect(words[1] == 1 && words[2] == 1, "the messages");
    });
    CHECK(problems(outcomes) == "");
}
