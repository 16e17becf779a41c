// Sends and receives between two ranks, as an embedder calls them.
#include <hocket.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/jobs_at_once.hpp"
#include "tests/capi/talk.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/once_for_children.hpp"

using namespace hocket::test;
using Catch::Contains;

namespace {

// Sizes around those at which messages take another path, and one larger than the data in flight.
constexpr std::size_t message_sizes[] = {0, 1, 3999, 4000, 4001, 16384, 16385, 100'003, 3'000'001};

}  // namespace

TEST_CASE("a message arrives whole, of any size, waited for at once or by a request, from all to all") {
    on_every_way(4, [](const Talk& talk) {
        for (const std::size_t bytes : message_sizes)
            for (int from = 0; from < talk.ranks; ++from)
                for (int to = 0; to < talk.ranks; ++to) {
                    if (from == to) continue;
                    if (talk.rank == from) talk.send(contents(bytes, from, to, 5), to, 5);
                    if (talk.rank == to)
                        expect(talk.receive(bytes, from, 5) == contents(bytes, from, to, 5),
                               "another message");
                }
        for (const std::size_t bytes : message_sizes) {
            std::vector<Bytes> sent, got(static_cast<std::size_t>(talk.ranks), Bytes(bytes));
            std::vector<hkt_request*> requests;
            for (int peer = 0; peer < talk.ranks; ++peer) {
                sent.push_back(contents(bytes, talk.rank, peer, 6));
                requests.push_back(talk.start_send(sent.back(), peer, 6));
            }
            for (int peer = 0; peer < talk.ranks; ++peer)
                requests.push_back(talk.start_receive(got[static_cast<std::size_t>(peer)], peer, 6));
            for (hkt_request* request : requests) talk.wait(request);
            for (int peer = 0; peer < talk.ranks; ++peer)
                expect(got[static_cast<std::size_t>(peer)] == contents(bytes, peer, talk.rank, 6),
                       "another message by requests");
        }
    });
}

TEST_CASE("messages of any type, from and to memory that the host shares or does not") {
    on_every_way(2, [](const Talk& talk) {
        constexpr std::size_t most = 70'000;
        void *shared = nullptr, *registered = nullptr;
        // More than is needed, so that it lies in other extents than the first, and not in the same ones.
        talk.must(hkt_mem_alloc(talk.comm, std::size_t{talk.rank == 0 ? 40U : 100U} << 20, &shared));
        expect(posix_memalign(&registered, 4096, 139 * 4096) == 0, "no memory");
        talk.must(hkt_mem_register(talk.comm, registered, 139 * 4096));
        std::vector<double> own(most);
        double* const places[] = {static_cast<double*>(shared), static_cast<double*>(registered), own.data()};
        const int other = 1 - talk.rank;
        for (double* const from : places)
            for (double* const to : places)
                for (const std::size_t count : {std::size_t{10}, std::size_t{501}, most}) {
                    double* const buffer = talk.rank == 0 ? from : to;
                    if (talk.rank == 0) {
                        std::iota(buffer, buffer + count, 0.5);
                        talk.must(hkt_send(buffer, count, HKT_FLOAT64, other, 0, talk.comm, nullptr));
                        std::fill_n(buffer, count, -1);  // it is the caller's again
                        continue;
                    }
                    std::fill_n(buffer, count, 0);
                    talk.must(hkt_recv(buffer, count, HKT_FLOAT64, other, 0, talk.comm, nullptr));
                    for (std::size_t i = 0; i < count; ++i)
                        expect(buffer[i] == static_cast<double>(i) + 0.5,
                               [&] { return "element " + std::to_string(i); });
                }
        talk.must(hkt_barrier(talk.comm));
        talk.must(hkt_mem_deregister(talk.comm, registered));
        std::free(registered);
        talk.must(hkt_mem_free(talk.comm, shared));
    });
}

TEST_CASE("large messages may go in both directions at once, many of them") {
    on_every_way(2, [](const Talk& talk) {
        const int other = 1 - talk.rank;
        std::vector<Bytes> sent, got(40, Bytes(500'000));
        std::vector<hkt_request*> requests;
        for (int i = 0; i < 40; ++i) sent.push_back(contents(500'000, talk.rank, other, 1, i));
        for (const Bytes& one : sent) requests.push_back(talk.start_send(one, other, 1));
        for (Bytes& one : got) requests.push_back(talk.start_receive(one, other, 1));
        for (hkt_request* request : requests) talk.wait(request);
        for (int i = 0; i < 40; ++i)
            expect(got[static_cast<std::size_t>(i)] == contents(500'000, other, talk.rank, 1, i),
                   "message " + std::to_string(i));
    });
}

TEST_CASE("messages of many tags are received in the opposite order, those of one tag in the same") {
    constexpr int messages = 300;
    on_every_way(2, [](const Talk& talk) {
        const int other = 1 - talk.rank;
        const auto bytes_of = [](int number) {
            return static_cast<std::size_t>(number % 7 == 0 ? 9000 + number : number);
        };
        std::vector<Bytes> sent;
        std::vector<hkt_request*> requests;
        for (int i = 0; i < messages; ++i) sent.push_back(contents(bytes_of(i), talk.rank, other, i));
        for (int i = 0; i < messages; ++i)
            requests.push_back(talk.start_send(sent[static_cast<std::size_t>(i)], other, 1'000'000'000 + i));
        for (int i = messages - 1; i >= 0; --i)
            expect(talk.receive(bytes_of(i), other, 1'000'000'000 + i) ==
                       contents(bytes_of(i), other, talk.rank, i),
                   "tag " + std::to_string(i));
        for (hkt_request* request : requests) talk.wait(request);
        requests.clear();
        for (int i = 0; i < messages; ++i)
            requests.push_back(talk.start_send(sent[static_cast<std::size_t>(i)], other, 7));
        for (int i = 0; i < messages; ++i)
            expect(talk.receive(bytes_of(i), other, 7) == contents(bytes_of(i), other, talk.rank, i),
                   "the same tag, message " + std::to_string(i));
        for (hkt_request* request : requests) talk.wait(request);
    });
}

TEST_CASE("short messages are buffered, so that their sends end before the receives begin") {
    on_every_way(2, [](const Talk& talk) {
        const int other = 1 - talk.rank;
        for (int i = 0; i < 10; ++i) talk.send(contents(4000, talk.rank, other, i), other, i);
        for (int i = 0; i < 10; ++i)
            expect(talk.receive(4000, other, i) == contents(4000, other, talk.rank, i), "another message");
    });
}

TEST_CASE("a rank sends to itself") {
    const Comm comm = alone();
    const Talk talk{comm.get()};
    for (const std::size_t bytes : message_sizes) {
        const Bytes first = contents(bytes, 0, 0, 1), second = contents(bytes, 0, 0, 2);
        Bytes got_first(bytes), got_second(bytes);
        hkt_request* requests[] = {talk.start_send(first, 0, 3), talk.start_receive(got_first, 0, 3),
                                   talk.start_receive(got_second, 0, 3), talk.start_send(second, 0, 3)};
        for (hkt_request* request : requests) talk.wait(request);
        CHECK(got_first == first);
        CHECK(got_second == second);
    }
    // From another thread, while this one waits.
    const Bytes sent = contents(100'000, 0, 0, 3);
    std::thread sender([&] { talk.send(sent, 0, 4); });
    CHECK(talk.receive(100'000, 0, 4) == sent);
    sender.join();
}

TEST_CASE("messages and collectives may come in different orders on the ranks") {
    on_every_way(3, [](const Talk& talk) {
        std::vector<std::int64_t> sums(3);
        const auto start_sum = [&](std::vector<std::int64_t>& values, hkt_request** request) {
            talk.must(hkt_all_reduce(values.data(), values.data(), values.size(), HKT_INT64, HKT_SUM,
                                     talk.comm, request));
        };
        for (const std::size_t bytes : {std::size_t{100}, std::size_t{200'000}})
            for (int round = 0; round < 20; ++round) {
                std::vector<std::int64_t> values(5000, talk.rank);
                const int next = (talk.rank + 1) % 3, previous = (talk.rank + 2) % 3;
                const Bytes sent = contents(bytes, talk.rank, next, round);
                Bytes got(bytes);
                hkt_request* requests[3] = {};
                const std::function<void()> starts[] = {
                    [&] { requests[0] = talk.start_send(sent, next, round); },
                    [&] { requests[1] = talk.start_receive(got, previous, round); },
                    [&] { start_sum(values, &requests[2]); }};
                for (int i = 0; i < 3; ++i) starts[(i + talk.rank + round) % 3]();
                // A collective that waits, while messages are under way.
                if (round % 2 == 0) talk.must(hkt_barrier(talk.comm));
                for (int i = 0; i < 3; ++i) talk.wait(requests[(2 * i + talk.rank) % 3]);
                expect(got == contents(bytes, previous, talk.rank, round), "another message");
                for (const std::int64_t value : values) expect(value == 3, "the sum is another");
            }
        // Only two of the ranks; the third knows nothing of it.
        if (talk.rank < 2) {
            Bytes ball(8);
            for (int i = 0; i < 200; ++i) {
                if (i % 2 == talk.rank)
                    talk.send(contents(8, 0, 1, i), 1 - talk.rank, 9);
                else
                    expect(talk.receive(8, 1 - talk.rank, 9) == contents(8, 0, 1, i), "another ball");
            }
        }
        talk.must(hkt_barrier(talk.comm));
    });
}

TEST_CASE("messages that nobody has received yet stand in no collective's way") {
    constexpr int messages = 1500;
    on_every_way(3, [](const Talk& talk) {
        const auto bytes_of = [](int number) {
            return number % 3 == 0 ? std::size_t{6000} : std::size_t{90};
        };
        std::vector<Bytes> sent;
        std::vector<hkt_request*> requests;
        for (int i = 0; talk.rank != 2 && i < messages; ++i)
            sent.push_back(contents(bytes_of(i), talk.rank, 2, i));
        for (const Bytes& one : sent)
            requests.push_back(talk.start_send(one, 2, static_cast<int>(requests.size())));
        for (int round = 0; round < 10; ++round) {
            std::vector<std::int64_t> values(20'000, talk.rank);
            talk.must(hkt_all_reduce(values.data(), values.data(), values.size(), HKT_INT64, HKT_SUM,
                                     talk.comm, nullptr));
            expect(values.front() == 3 && values.back() == 3, "the sum is another");
        }
        for (int i = messages - 1; talk.rank == 2 && i >= 0; --i)
            for (const int from : {0, 1})
                expect(talk.receive(bytes_of(i), from, i) == contents(bytes_of(i), from, 2, i),
                       "another message");
        for (hkt_request* request : requests) talk.wait(request);
    });
}

TEST_CASE("thousands of random messages between four ranks arrive, waited for in random order") {
    struct Letter {
        int from, to, tag, number;
        std::size_t bytes;
        Bytes data = {};
        hkt_request* request = nullptr;
    };
    constexpr int batches = 12, letters_of_a_batch = 500;
    on_every_way(4, [](const Talk& talk) {
        std::mt19937 common(11), own(static_cast<unsigned>(talk.rank));  // common: the same on all ranks
        for (int batch = 0; batch < in_long_form(batches, 2); ++batch) {
            std::vector<Letter> letters;
            for (int i = 0; i < letters_of_a_batch; ++i) {
                const auto below = [&](unsigned end) { return static_cast<int>(common() % end); };
                const int from = below(4), to = below(4), tag = below(5);
                const std::size_t most = std::size_t{1} << below(18);
                letters.push_back({from, to, tag, i, common() % (most + 1)});
            }
            // Each end starts its own in their order, now a few receives first, now a few sends.
            std::vector<Letter*> sends, receives, mine;
            std::vector<Letter> copies = letters;
            for (Letter& letter : letters)
                if (letter.from == talk.rank) sends.push_back(&letter);
            for (Letter& letter : copies)
                if (letter.to == talk.rank) receives.push_back(&letter);
            for (std::size_t s = 0, r = 0; s < sends.size() || r < receives.size();) {
                if (r == receives.size() || (s < sends.size() && own() % 2 == 0)) {
                    Letter& letter = *sends[s++];
                    letter.data = contents(letter.bytes, letter.from, letter.to, letter.tag, letter.number);
                    letter.request = talk.start_send(letter.data, letter.to, letter.tag);
                    mine.push_back(&letter);
                } else {
                    Letter& letter = *receives[r++];
                    letter.data.resize(letter.bytes);
                    letter.request = talk.start_receive(letter.data, letter.from, letter.tag);
                    mine.push_back(&letter);
                }
            }
            std::shuffle(mine.begin(), mine.end(), own);
            for (Letter* letter : mine) {
                hkt_status status = HKT_IN_PROGRESS;
                if (own() % 2 == 0)
                    status = hkt_wait(letter->request);
                else
                    while ((status = hkt_test(letter->request)) == HKT_IN_PROGRESS) sched_yield();
                talk.must(status);
            }
            for (const Letter* letter : mine)
                expect(letter->data ==
                           contents(letter->bytes, letter->from, letter->to, letter->tag, letter->number),
                       "letter " + std::to_string(letter->number) + " of batch " + std::to_string(batch));
        }
    });
}

TEST_CASE("what send and receive do not take is refused, with words that name it") {
    const Comm comm = alone();
    std::vector<float> x(8);
    const auto refused = [&](hkt_status status, const char* words) {
        CHECK(status == HKT_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(hkt_comm_last_error(comm.get()), Contains(words));
    };
    const auto crooked = reinterpret_cast<char*>(x.data()) + 1;
    hkt_request* request = nullptr;
    refused(hkt_send(x.data(), 8, HKT_FLOAT32, 1, 0, comm.get(), &request), "the peer is 1");
    refused(hkt_recv(x.data(), 8, HKT_FLOAT32, -1, 0, comm.get(), &request), "the peer is -1");
    refused(hkt_send(x.data(), 8, HKT_FLOAT32, 0, -1, comm.get(), &request), "the tag is -1");
    refused(hkt_recv(x.data(), 8, HKT_FLOAT32, 0, -7, comm.get(), &request), "the tag is -7");
    refused(hkt_send(nullptr, 8, HKT_FLOAT32, 0, 0, comm.get(), &request), "buffer is null");
    refused(hkt_recv(nullptr, 8, HKT_FLOAT32, 0, 0, comm.get(), nullptr), "buffer is null");
    refused(hkt_send(crooked, 1, HKT_FLOAT32, 0, 0, comm.get(), &request), "buffer is not aligned");
    refused(hkt_recv(x.data(), SIZE_MAX / 2, HKT_FLOAT32, 0, 0, comm.get(), &request), "does not fit");
    refused(hkt_send(x.data(), 8, static_cast<hkt_type>(200), 0, 0, comm.get(), &request), "type is 200");
    CHECK(request == nullptr);
    CHECK(hkt_send(x.data(), 8, HKT_FLOAT32, 0, 0, nullptr, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Contains("hkt_send"));
    CHECK(hkt_recv(x.data(), 8, HKT_FLOAT32, 0, 0, nullptr, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Contains("hkt_recv"));
    CHECK(hkt_comm_status(comm.get()) == HKT_SUCCESS);  // a refused call breaks nothing

    CHECK(hkt_send(nullptr, 0, HKT_FLOAT32, 0, INT32_MAX, comm.get(), nullptr) == HKT_SUCCESS);
    CHECK(hkt_recv(nullptr, 0, HKT_FLOAT32, 0, INT32_MAX, comm.get(), &request) == HKT_SUCCESS);
    CHECK(hkt_test(request) == HKT_SUCCESS);
    refused(hkt_wait(request), "not in flight");
}

TEST_CASE("a size that differs is found by the receive, and ends both ranks") {
    struct Ends {
        std::size_t send_count, receive_count;
        hkt_type send_type, receive_type;
        const char* words;
    };
    for (const Ends& ends : {Ends{10, 11, HKT_INT32, HKT_INT32, "of 40 bytes (10 elements of 4)"},
                             {11, 10, HKT_INT32, HKT_INT32, "expects 40 bytes (10 elements of 4)"},
                             {0, 1, HKT_INT32, HKT_INT32, "of 0 bytes"},
                             {20'000, 10, HKT_INT32, HKT_INT32, "of 80000 bytes"},
                             {10, 20'000, HKT_INT32, HKT_INT32, "expects 80000 bytes"},
                             {2'000'000, 2'000'001, HKT_INT8, HKT_INT8, "expects 2000001 bytes"},
                             {2, 1, HKT_INT32, HKT_INT64, "of 8 bytes (2 elements of 4)"}})
        for (const Way& way : {ways[0], ways[1], ways[5]}) {
            const auto outcomes = run_ranks(
                {3, {{"HOCKET_PROVIDER_FOR_ALL", way.provider}, {"HOCKET_TIMEOUT_MS", "20000"}}},
                [&](int rank) {
                    setenv("HOCKET_HOST_ID", std::string(1, way.hosts[rank]).c_str(), 1);
                    const Comm joined = join();
                    hkt_comm* comm = joined.get();
                    const std::size_t bytes = std::max(ends.send_count * hkt_type_size(ends.send_type),
                                                       ends.receive_count * hkt_type_size(ends.receive_type));
                    std::vector<std::int64_t> buffer(bytes / sizeof(std::int64_t) + 1);
                    // All have joined. Rank 2 may be in it still when the others fail.
                    const hkt_status met = hkt_barrier(comm);
                    const auto call = [&] {
                        if (met != HKT_SUCCESS || rank == 2)
                            return met == HKT_SUCCESS ? hkt_barrier(comm) : met;
                        if (rank == 1)
                            return hkt_recv(buffer.data(), ends.receive_count, ends.receive_type, 0, 77, comm,
                                            nullptr);
                        const hkt_status sent =
                            hkt_send(buffer.data(), ends.send_count, ends.send_type, 1, 77, comm, nullptr);
                        return sent == HKT_SUCCESS ? hkt_barrier(comm) : sent;
                    };
                    const hkt_status status = call();
                    const std::string text = hkt_comm_last_error(comm);
                    expect(status == HKT_ERROR_MISMATCH, "status " + std::to_string(status) + ": " + text);
                    for (const char* part : {"rank 0 sent rank 1", "tag 77", ends.words, "rank 1 expects"})
                        expect(text.find(part) != std::string::npos,
                               std::string(part) + " is not in: " + text);
                    expect(hkt_comm_status(comm) == HKT_ERROR_MISMATCH, "the communicator lives on");
                });
            INFO("hosts " << way.hosts << ", provider '" << way.provider << "': " << ends.words);
            CHECK(problems(outcomes) == "");
        }
}

namespace {

void expect_failure(hkt_comm* comm, hkt_status status, hkt_status expected,
                    std::initializer_list<const char*> parts) {
    const std::string text = hkt_comm_last_error(comm);
    expect(status == expected, "status " + std::to_string(status) + ": " + text);
    for (const char* part : parts)
        expect(text.find(part) != std::string::npos, "\"" + std::string(part) + "\" is not in: " + text);
}

// Outside of calls that have a deadline of their own.
void wait_for_the_end(hkt_comm* comm) {
    const bool has_ended = eventually([&] { return hkt_comm_status(comm) != HKT_SUCCESS; });
    expect(has_ended, "the communicator's end");
}

// Both ranks in some ways, several variants in each, all at the same time: rank 0 waits for its deadline.
void on_some_ways(std::size_t variants, const std::function<void(hkt_comm*, int, std::size_t)>& body) {
    constexpr Way some[] = {ways[0], ways[1], ways[5]};
    const std::size_t jobs = std::size(some) * variants;
    const JobsAtOnce at_once(jobs, 2);
    load_libfabric_for_children();
    const auto outcomes = run_ranks({static_cast<int>(2 * jobs)}, [&](int process) {
        const auto job = static_cast<std::size_t>(process) / 2;
        const int rank = process % 2;
        const Way& way = some[job / variants];
        setenv("HOCKET_PROVIDER_FOR_ALL", way.provider, 1);
        setenv("HOCKET_HOST_ID", std::string(1, way.hosts[rank]).c_str(), 1);
        // On a busy machine rank 1 waits longer for rank 0's earlier steps.
        setenv("HOCKET_TIMEOUT_MS", rank == 0 ? "3000" : "20000", 1);
        const Comm joined = at_once.join(job, rank);
        body(joined.get(), rank, job % variants);
    });
    INFO("of " << 2 * variants << " processes for each way");
    CHECK(problems(outcomes) == "");
}

}  // namespace

TEST_CASE("a message that never comes, or that nobody takes, ends with the deadline") {
    {
        const Comm comm = alone(200);
        int x = 0;
        hkt_request* request = nullptr;
        CHECK(hkt_recv(&x, 1, HKT_INT32, 0, 12, comm.get(), &request) == HKT_SUCCESS);
        CHECK(hkt_test(request) == HKT_IN_PROGRESS);
        CHECK(hkt_recv(&x, 1, HKT_INT32, 0, 12, comm.get(), nullptr) == HKT_ERROR_TIMEOUT);
        CHECK_THAT(hkt_comm_last_error(comm.get()),
                   Contains("receive of 4 bytes from rank 0, tag 12") && Contains("200 ms") &&
                       Contains("a rank that sends to itself starts the send or the receive (of tag 12) with "
                                "a request") &&
                       !Contains(" here, and"));
        CHECK(hkt_wait(request) == HKT_ERROR_TIMEOUT);  // all that was open ends with it
        CHECK(hkt_send(&x, 1, HKT_INT32, 0, 12, comm.get(), nullptr) == HKT_ERROR_TIMEOUT);
    }
    on_some_ways(2, [](hkt_comm* comm, int rank, std::size_t variant) {
        const bool sends = variant == 1;
        Bytes bytes(100'000);
        if (rank == 1) {
            // A message with another tag is no answer.
            int word = 1;
            hkt_request* request = nullptr;
            if (!sends) expect(hkt_send(&word, 1, HKT_INT32, 0, 1, comm, &request) == HKT_SUCCESS, "send");
            wait_for_the_end(comm);
            expect_failure(comm, hkt_barrier(comm), HKT_ERROR_TIMEOUT, {"rank 0 reported", "rank 1, tag 3"});
            return;
        }
        const hkt_status status = sends
                                      ? hkt_send(bytes.data(), bytes.size(), HKT_UINT8, 1, 3, comm, nullptr)
                                      : hkt_recv(bytes.data(), bytes.size(), HKT_UINT8, 1, 3, comm, nullptr);
        if (sends)
            expect_failure(comm, status, HKT_ERROR_TIMEOUT,
                           {"send of 100000 bytes to rank 1, tag 3 on rank 0", "3000 ms",
                            "rank 1 has not received it", "start several sends with requests"});
        else
            expect_failure(comm, status, HKT_ERROR_TIMEOUT,
                           {"receive of 100000 bytes from rank 1, tag 3 on rank 0", "3000 ms",
                            "rank 1 has not sent it"});
    });
}

TEST_CASE("a rank that waits in a large send to itself is told to start it with a request") {
    const Comm comm = alone(200);
    const Bytes bytes(100'000);
    CHECK(hkt_send(bytes.data(), bytes.size(), HKT_UINT8, 0, 12, comm.get(), nullptr) == HKT_ERROR_TIMEOUT);
    CHECK_THAT(hkt_comm_last_error(comm.get()),
               Contains("send of 100000 bytes to rank 0, tag 12") &&
                   Contains("a rank that sends to itself starts the send or the receive (of tag 12) with a "
                            "request before it waits for the other"));
}

TEST_CASE("a receive that ends with the deadline tells which messages of its peer are here") {
    on_some_ways(1, [](hkt_comm* joined, int rank, std::size_t) {
        const Talk talk{joined};
        int word = 0;
        if (rank == 1) {
            const Bytes one = contents(10, 1, 0, 41);
            hkt_request* requests[] = {talk.start_send(one, 0, 41), talk.start_send(one, 0, 40),
                                       talk.start_send(one, 0, 39), talk.start_send(one, 0, 41)};
            talk.wait(requests[2]);
            return wait_for_the_end(talk.comm);
        }
        talk.receive(10, 1, 39);  // those before it are here, too
        expect_failure(talk.comm, hkt_recv(&word, 1, HKT_INT32, 1, 3, talk.comm, nullptr), HKT_ERROR_TIMEOUT,
                       {"rank 1 has not sent it", "messages with tags 40, 41 from rank 1 are here",
                        "whether its send names rank 0 and tag 3"});
    });
    const Comm comm = alone(200);
    const int sent = 1;
    int word = 0;
    CHECK(hkt_send(&sent, 1, HKT_INT32, 0, 41, comm.get(), nullptr) == HKT_SUCCESS);
    CHECK(hkt_recv(&word, 1, HKT_INT32, 0, 12, comm.get(), nullptr) == HKT_ERROR_TIMEOUT);
    CHECK_THAT(hkt_comm_last_error(comm.get()), Contains("a message with tag 41 from rank 0 is here"));
}

TEST_CASE("where both ranks wait in a send to each other, the deadline's words say so") {
    on_some_ways(1, [](hkt_comm* joined, int rank, std::size_t) {
        const Talk talk{joined};
        const Bytes large(100'000), small = contents(10, 1, 0, 1);
        if (rank == 1) {
            talk.start_send(large, 0, 6);
            talk.send(small, 0, 1);
            return wait_for_the_end(talk.comm);
        }
        talk.receive(10, 1, 1);  // rank 1's earlier message has arrived, too
        expect_failure(talk.comm, hkt_send(large.data(), large.size(), HKT_UINT8, 1, 5, talk.comm, nullptr),
                       HKT_ERROR_TIMEOUT,
                       {"a message with tag 6 from rank 1 is here, and rank 0 has not received it",
                        "rank 1 has sent to rank 0, too: where both wait in a send to each other, start the "
                        "sends with requests"});
    });
}

TEST_CASE("a dead rank, and one that has left, end the messages that need it") {
    for (const Way& way : {ways[0], ways[1], ways[5]})
        for (const bool dies : {true, false}) {
            const auto outcomes =
                run_ranks({3, {{"HOCKET_PROVIDER_FOR_ALL", way.provider}, {"HOCKET_TIMEOUT_MS", "20000"}}},
                          [&](int rank) {
                              setenv("HOCKET_HOST_ID", std::string(1, way.hosts[rank]).c_str(), 1);
                              const Comm joined = join();
                              hkt_comm* comm = joined.get();
                              Bytes bytes(100'000);
                              hkt_request* request = nullptr;
                              if (rank == 0)
                                  hkt_recv(bytes.data(), bytes.size(), HKT_UINT8, 2, 8, comm, &request);
                              if (rank == 1)
                                  hkt_send(bytes.data(), bytes.size(), HKT_UINT8, 2, 8, comm, &request);
                              const hkt_status met = hkt_barrier(comm);
                              if (rank == 2) {
                                  expect(met == HKT_SUCCESS, hkt_comm_last_error(comm));
                                  if (dies) raise(SIGKILL);
                                  return;
                              }
                              const hkt_status status = hkt_wait(request);
                              expect_failure(comm, status, HKT_ERROR_PEER_LOST,
                                             {dies ? "rank 2 was lost" : "rank 2 has left the job",
                                              rank == 0 ? "receive of 100000 bytes from rank 2, tag 8"
                                                        : "send of 100000 bytes to rank 2, tag 8"});
                          });
            INFO("hosts " << way.hosts << ", provider '" << way.provider << "', dies " << dies);
            CHECK(outcomes[0].text + outcomes[1].text == "");
            CHECK(outcomes[0].ok);
            CHECK(outcomes[1].ok);
        }
}

TEST_CASE("two threads of a rank talk with another rank's, each with tags of its own") {
    on_every_way(2, [](const Talk& talk) {
        const int other = 1 - talk.rank;
        std::string trouble[2];
        const auto converse = [&](int thread) {
            try {
                for (int i = 0; i < 100; ++i) {
                    const std::size_t bytes = i % 10 == 0 ? 50'000 : 10;
                    const Bytes sent = contents(bytes, talk.rank, other, thread, i);
                    Bytes got(bytes);
                    hkt_request* requests[] = {talk.start_send(sent, other, thread),
                                               talk.start_receive(got, other, thread)};
                    for (hkt_request* request : requests) talk.wait(request);
                    expect(got == contents(bytes, other, talk.rank, thread, i), "another message");
                }
            } catch (const std::exception& error) {
                trouble[thread] = error.what();
            }
        };
        std::thread second([&] { converse(1); });
        converse(0);
        second.join();
        expect(trouble[0] + trouble[1] == "", trouble[0] + trouble[1]);
    });
}
