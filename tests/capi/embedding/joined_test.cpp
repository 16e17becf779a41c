// Several operations under one request.
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/embedding/ways.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

constexpr std::size_t message_count = 20'000;  // of a message: more than is sent without a receive

hkt_request* join_all(hkt_comm* comm, const std::vector<hkt_request*>& requests) {
    hkt_request* joined = nullptr;
    must(comm, hkt_request_join(requests.data(), requests.size(), &joined));
    return joined;
}

// Sends to every rank, and receives from every rank, itself among them; then a sum.
struct Exchange {
    explicit Exchange(hkt_comm* comm, std::int32_t seed)
        : comm(comm), ranks(hkt_comm_size(comm)), seed(seed) {
        own.assign(message_count, value_of(hkt_comm_rank(comm)));
        all.assign(static_cast<std::size_t>(ranks), std::vector<std::int32_t>(message_count));
        sum = own;
        for (int peer = 0; peer < ranks; ++peer) {
            add([&](hkt_request** r) {
                return hkt_send(own.data(), message_count, HKT_INT32, peer, seed, comm, r);
            });
            add([&](hkt_request** r) {
                return hkt_recv(all[static_cast<std::size_t>(peer)].data(), message_count, HKT_INT32, peer,
                                seed, comm, r);
            });
        }
        add([&](hkt_request** r) {
            return hkt_all_reduce(own.data(), sum.data(), message_count, HKT_INT32, HKT_SUM, comm, r);
        });
    }
    std::int32_t value_of(int rank) const { return 100 * seed + rank; }
    void check() const {
        std::int32_t total = 0;
        for (int peer = 0; peer < ranks; ++peer) {
            const auto& got = all[static_cast<std::size_t>(peer)];
            expect(got.front() == value_of(peer) && got.back() == value_of(peer), "what came from a peer");
            total += value_of(peer);
        }
        expect(sum.front() == total && sum.back() == total, "the sum");
    }

    hkt_comm* comm;
    int ranks;
    std::int32_t seed;
    std::vector<std::int32_t> own, sum;
    std::vector<std::vector<std::int32_t>> all;
    std::vector<hkt_request*> requests;

  private:
    template <typename Start>
    void add(Start start) {
        requests.push_back(nullptr);
        must(comm, start(&requests.back()));
    }
};

}  // namespace

TEST_CASE("a group of sends, receives and collectives is waited for as one") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({3, way}, [](int) {
            const Comm comm = join();
            for (int round = 0; round < 20; ++round) {
                Exchange first(comm.get(), 2 * round), second(comm.get(), 2 * round + 1);
                hkt_request* const one = join_all(comm.get(), first.requests);
                hkt_request* const other = join_all(comm.get(), second.requests);
                expect(one != other, "two requests");
                must(comm.get(), hkt_wait(other));
                second.check();
                hkt_status status = HKT_IN_PROGRESS;
                while (status == HKT_IN_PROGRESS)
                    status = round % 2 == 0 ? hkt_test(one) : hkt_wait_for(one, 1);
                must(comm.get(), status);
                first.check();
                expect(hkt_wait(one) == HKT_ERROR_INVALID_ARGUMENT, "a second wait");
                expect(std::string(hkt_comm_last_error(comm.get())).find("was it waited for before?") !=
                           std::string::npos,
                       hkt_comm_last_error(comm.get()));
            }
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("the end of a group is told once, after its last part, by a call and by an eventfd") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({2, way}, [](int rank) {
            const Comm comm = join_with_thread();
            std::atomic<int> called{0};
            const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
            const auto told = [&] {
                eventfd_t value = 0;
                return eventfd_read(fd, &value) == 0 ? static_cast<int>(value) : 0;
            };
            // The second part comes late: until then there is no notification.
            std::int32_t values[2] = {}, go = 1;
            hkt_request* parts[2] = {};
            if (rank == 0) {
                for (int i = 0; i < 2; ++i)
                    must(comm.get(), hkt_recv(&values[i], 1, HKT_INT32, 1, i, comm.get(), &parts[i]));
                hkt_request* const joined = join_all(comm.get(), {parts[0], parts[1]});
                must(comm.get(), hkt_request_eventfd(joined, fd));
                must(comm.get(),
                     hkt_request_callback(
                         joined, [](void* user) { ++*static_cast<std::atomic<int>*>(user); }, &called));
                must(comm.get(), hkt_send(&go, 1, HKT_INT32, 1, 7, comm.get(), nullptr));
                must(comm.get(),
                     hkt_recv(&go, 1, HKT_INT32, 1, 8, comm.get(), nullptr));  // the first has been sent
                std::this_thread::sleep_for(std::chrono::milliseconds(30));
                expect(called == 0 && told() == 0, "told too early");
                must(comm.get(), hkt_send(&go, 1, HKT_INT32, 1, 9, comm.get(), nullptr));
                int seen = 0;
                expect(
                    eventually([&] { return (seen += told()) > 0 && called > 0; }, std::chrono::seconds(60)),
                    "it is told");
                must(comm.get(), hkt_test(joined));
                expect(values[0] == 5 && values[1] == 6, "the values");
                std::this_thread::sleep_for(std::chrono::milliseconds(30));
                expect(called == 1 && seen + told() == 1, "told once");
            } else {
                std::int32_t five = 5, six = 6;
                must(comm.get(), hkt_recv(&go, 1, HKT_INT32, 0, 7, comm.get(), nullptr));
                must(comm.get(), hkt_send(&five, 1, HKT_INT32, 0, 0, comm.get(), nullptr));
                must(comm.get(), hkt_send(&go, 1, HKT_INT32, 0, 8, comm.get(), nullptr));
                must(comm.get(), hkt_recv(&go, 1, HKT_INT32, 0, 9, comm.get(), nullptr));
                must(comm.get(), hkt_send(&six, 1, HKT_INT32, 0, 1, comm.get(), nullptr));
            }
            // For an operation that has already ended, the notification comes at once.
            Exchange exchange(comm.get(), 4);
            hkt_request* const joined = join_all(comm.get(), exchange.requests);
            must(comm.get(), hkt_barrier(comm.get()));
            must(comm.get(), hkt_request_eventfd(joined, fd));
            expect(eventually([&] { return told() == 1; }, std::chrono::seconds(60)), "told at once");
            must(comm.get(), hkt_wait(joined));
            exchange.check();
            close(fd);
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a group is made while another thread waits for one that depends on it") {
    const auto outcomes = run_ranks({2}, [](int rank) {
        const Comm comm = join();
        std::int32_t first = 0, second = rank;
        hkt_request *waited = nullptr, *started = nullptr;
        must(comm.get(), hkt_recv(&first, 1, HKT_INT32, 1 - rank, 0, comm.get(), &waited));
        hkt_request* const joined = join_all(comm.get(), {waited});
        hkt_status status = HKT_IN_PROGRESS;
        std::thread waiting([&] { status = hkt_wait(joined); });
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        must(comm.get(), hkt_send(&second, 1, HKT_INT32, 1 - rank, 1, comm.get(), &started));
        hkt_request* const other =
            join_all(comm.get(), {started});  // before the message that the thread waits for is sent
        must(comm.get(), hkt_send(&second, 1, HKT_INT32, 1 - rank, 0, comm.get(), nullptr));
        waiting.join();
        must(comm.get(), status);
        must(comm.get(), hkt_recv(&first, 1, HKT_INT32, 1 - rank, 1, comm.get(), nullptr));
        must(comm.get(), hkt_wait(other));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a group fails as its first part that failed, and is gone then") {
    const Tally met;
    const auto outcomes = run_ranks({2}, [&](int rank) {
        const Comm comm = join();
        std::int32_t value = 0;
        hkt_request* parts[3] = {};
        for (int i = 0; i < 3; ++i)
            must(comm.get(), hkt_recv(&value, 1, HKT_INT32, 1 - rank, i, comm.get(), &parts[i]));
        hkt_request* const joined = join_all(comm.get(), {parts[0], parts[1], parts[2]});
        met.meet(2);  // the other one may still start its receives
        std::thread aborting([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            hkt_comm_abort(comm.get());
        });
        const hkt_status status = hkt_wait(joined);
        aborting.join();
        expect(status == HKT_ERROR_ABORTED || status == HKT_ERROR_PEER_LOST, hkt_comm_last_error(comm.get()));
        expect(hkt_test(joined) == HKT_ERROR_INVALID_ARGUMENT, "it is gone");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("what is no group is refused, and the requests stay the program's") {
    const Comm comm = alone(), other = alone();
    std::vector<std::int32_t> data(10);
    const auto started = [&](hkt_comm* on) {
        hkt_request* request = nullptr;
        must(on, hkt_all_reduce(data.data(), data.data(), data.size(), HKT_INT32, HKT_SUM, on, &request));
        return request;
    };
    hkt_request *a = started(comm.get()), *b = started(other.get()), *joined = nullptr;
    const auto refused = [&](std::vector<hkt_request*> requests, const char* words) {
        CHECK(hkt_request_join(requests.data(), requests.size(), &joined) == HKT_ERROR_INVALID_ARGUMENT);
        CHECK(joined == nullptr);
        CHECK_THAT(hkt_last_error(), Catch::Contains(words));
    };
    refused({}, "requests is null");
    refused({a, nullptr}, "requests[1] is null");
    refused({a, b}, "two communicators");
    CHECK(hkt_request_join(&a, 0, &joined) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_request_join(&a, 1, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    REQUIRE(hkt_request_join(&a, 1, &joined) == HKT_SUCCESS);
    hkt_request* again = nullptr;
    CHECK(hkt_request_join(&joined, 1, &again) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Catch::Contains("of several operations"));
    std::size_t index = 0;
    CHECK(hkt_wait_any(&joined, 1, 10, &index) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_wait(joined) == HKT_SUCCESS);
    CHECK(hkt_wait(b) == HKT_SUCCESS);
}

TEST_CASE("a group that had ended is told of by the communicator's thread, too") {
    std::deque<std::promise<std::thread::id>> told;  // they outlive the thread that fulfils them
    const Comm comm = alone();
    std::vector<std::int32_t> data(10);
    for (int round = 0; round < 200; ++round) {
        std::vector<hkt_request*> parts(2);
        for (hkt_request*& part : parts) {
            must(comm.get(), hkt_all_reduce(data.data(), data.data(), data.size(), HKT_INT32, HKT_SUM,
                                            comm.get(), &part));
            std::size_t index = 0;
            must(comm.get(), hkt_wait_any(&part, 1, 60000, &index));
        }
        hkt_request* const joined = join_all(comm.get(), parts);
        auto by = told.emplace_back().get_future();
        must(comm.get(),
             hkt_request_callback(
                 joined,
                 [](void* user) {
                     static_cast<std::promise<std::thread::id>*>(user)->set_value(std::this_thread::get_id());
                 },
                 &told.back()));
        REQUIRE(by.wait_for(std::chrono::minutes(1)) == std::future_status::ready);
        REQUIRE(by.get() != std::this_thread::get_id());
        REQUIRE(hkt_wait(joined) == HKT_SUCCESS);
    }
}

TEST_CASE("a communicator that goes takes its groups along") {
    const auto outcomes = run_ranks({2}, [](int rank) {
        const Comm comm = join();
        std::int32_t value = 0;
        hkt_request* part = nullptr;
        must(comm.get(), hkt_recv(&value, 1, HKT_INT32, 1 - rank, 0, comm.get(), &part));
        hkt_request* const joined = join_all(comm.get(), {part});
        must(comm.get(), hkt_request_callback(
                             joined, [](void*) { _exit(9); }, nullptr));
        must(comm.get(), hkt_barrier(comm.get()));
    });
    CHECK(problems(outcomes) == "");
}
