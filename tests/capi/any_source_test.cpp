// Receives that take a message of any rank.
#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/talk.hpp"
#include "tests/support/long_form.hpp"

using namespace hocket::test;

namespace {

struct FromAny {
    Bytes bytes;
    std::int32_t source = -7;
    hkt_request* request = nullptr;
};

void start_receive_any(const Talk& talk, FromAny& into, std::size_t bytes, int tag) {
    into.bytes.resize(bytes);
    talk.must(hkt_recv_any(into.bytes.data(), bytes, HKT_UINT8, tag, &into.source, talk.comm, &into.request));
}

FromAny receive_any(const Talk& talk, std::size_t bytes, int tag) {
    FromAny got;
    got.bytes.resize(bytes);
    talk.must(hkt_recv_any(got.bytes.data(), bytes, HKT_UINT8, tag, &got.source, talk.comm, nullptr));
    return got;
}

constexpr std::size_t received_sizes[] = {0, 1, 4000, 4001, 100'003, 3'000'001};

}  // namespace

TEST_CASE("a receive from any rank gets each message once, whole, and says whose it is") {
    on_every_way(4, [](const Talk& talk) {
        constexpr int each = 5;
        for (const std::size_t bytes : received_sizes)
            for (const bool is_early : {false, true}) {  // the receives before the sends, and after
                talk.must(hkt_barrier(talk.comm));       // none is a message of the round before
                if (talk.rank != 2) {
                    if (!is_early) talk.must(hkt_barrier(talk.comm));
                    std::vector<Bytes> sent;
                    std::vector<hkt_request*> requests;
                    for (int i = 0; i < each; ++i) sent.push_back(contents(bytes, talk.rank, 2, 9, i));
                    for (const Bytes& one : sent) requests.push_back(talk.start_send(one, 2, 9));
                    for (hkt_request* request : requests) talk.wait(request);
                    continue;
                }
                std::vector<FromAny> got(3 * each);
                for (FromAny& one : got) start_receive_any(talk, one, bytes, 9);
                if (!is_early) talk.must(hkt_barrier(talk.comm));
                std::map<int, int> of_source;
                for (FromAny& one : got) talk.wait(one.request);
                // The receives are in the order of their starts, so those of one source are in its order.
                for (const FromAny& one : got)
                    expect(one.bytes == contents(bytes, one.source, 2, 9, of_source[one.source]++),
                           "message " + std::to_string(of_source[one.source]) + " of rank " +
                               std::to_string(one.source));
                expect(of_source == std::map<int, int>{{0, each}, {1, each}, {3, each}}, "from all");
            }
    });
}

TEST_CASE("a receive from a rank and one from any: the one that was started first gets the message") {
    on_every_way(2, [](const Talk& talk) {
        for (const std::size_t bytes : received_sizes)
            for (const bool any_first : {true, false}) {
                const Bytes first = contents(bytes, 1, 0, 3, 1), second = contents(bytes, 1, 0, 3, 2);
                if (talk.rank == 1) {
                    talk.must(hkt_barrier(talk.comm));
                    talk.send(first, 0, 3);
                    talk.send(second, 0, 3);
                    continue;
                }
                FromAny any;
                Bytes own(bytes);
                hkt_request* request = nullptr;
                if (any_first) start_receive_any(talk, any, bytes, 3);
                request = talk.start_receive(own, 1, 3);
                if (!any_first) start_receive_any(talk, any, bytes, 3);
                talk.must(hkt_barrier(talk.comm));
                talk.wait(request);
                talk.wait(any.request);
                expect(any.source == 1, "the source");
                expect(any.bytes == (any_first ? first : second), "what came to the receive from any");
                expect(own == (any_first ? second : first), "what came to the receive from rank 1");
            }
    });
}

TEST_CASE("a rank takes its own message, other tags wait, and nobody must ask for the source") {
    on_every_way(3, [](const Talk& talk) {
        const Bytes mine = contents(50'000, talk.rank, talk.rank, 1), other = contents(8, talk.rank, 0, 2);
        hkt_request* const to_itself = talk.start_send(mine, talk.rank, 1);
        hkt_request* const to_next = talk.start_send(other, (talk.rank + 1) % 3, 2);
        const FromAny got = receive_any(talk, mine.size(), 1);
        expect(got.source == talk.rank && got.bytes == mine, "its own");
        Bytes unasked(8);
        talk.must(hkt_recv_any(unasked.data(), 8, HKT_UINT8, 2, nullptr, talk.comm, nullptr));
        expect(unasked == contents(8, (talk.rank + 2) % 3, 0, 2), "of the previous rank");
        talk.wait(to_itself);
        talk.wait(to_next);
        talk.must(hkt_barrier(talk.comm));
    });
}

// Each rank serves the others, and asks them: a pool of workers, beside collectives.
TEST_CASE("ranks that ask and answer whoever asks, beside collectives") {
    on_every_way(4, [](const Talk& talk) {
        const int questions = in_long_form(60, 20);
        std::mt19937 random(static_cast<unsigned>(talk.rank) + 1);
        std::thread server([&] {
            // Each rank is asked by each other one as often.
            for (int left = 3 * questions; left > 0; --left) {
                const FromAny asked = receive_any(talk, 16, 1);
                talk.send(contents(6000, talk.rank, asked.source, asked.bytes[0]), asked.source, 2);
            }
        });
        for (int i = 0; i < questions; ++i)
            for (int step = 1; step < 4; ++step) {
                const int to = (talk.rank + step) % 4;
                Bytes question(16);
                question[0] = static_cast<unsigned char>(random());
                talk.send(question, to, 1);
                expect(talk.receive(6000, to, 2) == contents(6000, to, talk.rank, question[0]), "the answer");
            }
        server.join();
        std::int32_t one = 1, sum = 0;
        talk.must(hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, talk.comm, nullptr));
        expect(sum == 4, "the sum");
    });
}

TEST_CASE("a receive from any rank that fails says so: sizes, the deadline, and all that have left") {
    const auto sizes_differ = run_ranks({2, {}, 60}, [](int rank) {
        const Comm comm = join();
        const Talk talk{comm.get()};
        Bytes bytes(24);
        if (rank == 1) {
            hkt_request* request = nullptr;
            talk.must(hkt_send(bytes.data(), 24, HKT_UINT8, 0, 4, talk.comm, &request));
            expect(hkt_wait(request) == HKT_SUCCESS || hkt_comm_status(talk.comm) != HKT_SUCCESS, "the send");
            return;
        }
        const std::string text =
            failure_of(talk.comm, hkt_recv_any(bytes.data(), 23, HKT_UINT8, 4, nullptr, talk.comm, nullptr),
                       HKT_ERROR_MISMATCH);
        expect(text.find("rank 1 sent rank 0 a message with tag 4 of 24 bytes") != std::string::npos, text);
        expect(text.find("expects 23 bytes") != std::string::npos, text);
    });
    CHECK(problems(sizes_differ) == "");
    const auto late = run_ranks({2, {}, 60}, [](int rank) {
        // Rank 0's deadline passes first, even if it begins late.
        setenv("HOCKET_TIMEOUT_MS", rank == 0 ? "3500" : "30000", 1);
        const Comm comm = join();
        const Talk talk{comm.get()};
        if (rank == 1) {
            talk.send(contents(10, 1, 0, 8), 0, 8);  // another tag
            Bytes bytes(1);
            expect(hkt_recv(bytes.data(), 1, HKT_UINT8, 0, 1, talk.comm, nullptr) != HKT_SUCCESS,
                   "a receive");
            return;
        }
        std::int32_t source = 0;
        Bytes bytes(10);
        const std::string text =
            failure_of(talk.comm, hkt_recv_any(bytes.data(), 10, HKT_UINT8, 4, &source, talk.comm, nullptr),
                       HKT_ERROR_TIMEOUT);
        for (const char* words : {"receive of 10 bytes from any rank, tag 4", "no rank has sent it",
                                  "a message with tag 8 is here", "sends to rank 0 with tag 4"})
            expect(text.find(words) != std::string::npos, std::string(words) + " is not in: " + text);
    });
    CHECK(problems(late) == "");
    const auto gone = run_ranks({3, {}, 60}, [](int rank) {
        Comm comm = join();
        const Talk talk{comm.get()};
        if (rank == 1) return;
        if (rank == 2) {  // the one that is left may still send
            talk.send(contents(10, 2, 0, 4), 0, 4);
            talk.receive(1, 0, 5);
            return;
        }
        expect(receive_any(talk, 10, 4).source == 2, "of the rank that stayed");
        talk.send(Bytes(1), 2, 5);
        Bytes bytes(10);
        const std::string text =
            failure_of(talk.comm, hkt_recv_any(bytes.data(), 10, HKT_UINT8, 4, nullptr, talk.comm, nullptr),
                       HKT_ERROR_PEER_LOST);
        expect(text.find("left") != std::string::npos, text);
    });
    CHECK(problems(gone) == "");
}
