// all_to_all, averages, and the collectives with a count for each rank, as an embedder calls them.
#include <hocket.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/values.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using Catch::Contains;

namespace {

// In every placement of 4 ranks.
void on_four_ranks(const std::function<void(hkt_comm*)>& body) {
    for (const char* hosts : {"aaaa", "aabb", "abcd"}) {
        const auto outcomes = run_ranks({4, {}, 120}, [&](int rank) {
            setenv("HOCKET_HOST_ID", std::string(1, hosts[rank]).c_str(), 1);
            body(join().get());
        });
        INFO(hosts);
        CHECK(problems(outcomes) == "");
    }
}

// The elements that rank `from` has for rank `to`.
std::int32_t message(int from, int to, std::size_t i) {
    return static_cast<std::int32_t>(1'000'000 * from + 100'000 * to) + static_cast<std::int32_t>(i);
}

}  // namespace

TEST_CASE("all_to_all gives each rank what every rank has for it, in place too") {
    on_four_ranks([](hkt_comm* comm) {
        const int rank = hkt_comm_rank(comm);
        for (const std::size_t count : {0, 1, 7, 1000, 65'537}) {
            Values sent(4 * count), wanted(4 * count), received(4 * count, -1);
            for (std::size_t i = 0; i < 4 * count; ++i) {
                const int other = static_cast<int>(i / count);
                sent[i] = message(rank, other, i % count);
                wanted[i] = message(other, rank, i % count);
            }
            const Values before = sent;
            must(comm, hkt_all_to_all(sent.data(), received.data(), count, HKT_INT32, comm, nullptr));
            expect(received == wanted, "all_to_all of " + std::to_string(count));
            expect(sent == before, "all_to_all wrote to what it sends");
            must(comm, hkt_all_to_all(sent.data(), sent.data(), count, HKT_INT32, comm, nullptr));
            expect(sent == wanted, "all_to_all in place of " + std::to_string(count));
        }
    });
}

TEST_CASE("an average is the sum, divided by the number of ranks") {
    on_four_ranks([](hkt_comm* comm) {
        const int rank = hkt_comm_rank(comm);
        for (const std::size_t count : {1, 1000, 65'537}) {
            std::vector<double> sent(count), received(count);
            for (std::size_t i = 0; i < count; ++i) sent[i] = static_cast<double>(i) + 0.5 * rank;
            must(comm, hkt_all_reduce(sent.data(), received.data(), count, HKT_FLOAT64, HKT_AVERAGE, comm,
                                      nullptr));
            for (std::size_t i = 0; i < count; ++i)
                expect(received[i] == static_cast<double>(i) + 0.75, "the average is another");
        }
        const std::int32_t mine = rank == 0 ? -7 : 0;
        std::int32_t average = 0;
        must(comm, hkt_all_reduce(&mine, &average, 1, HKT_INT32, HKT_AVERAGE, comm, nullptr));
        expect(average == -1, "integers are divided towards 0");
        const std::uint8_t large = 200;  // the sum wraps before it is divided: 800 is 32
        std::uint8_t wrapped = 0;
        must(comm, hkt_all_reduce(&large, &wrapped, 1, HKT_UINT8, HKT_AVERAGE, comm, nullptr));
        expect(wrapped == 8, "the sum of four times 200, wrapped, is 32");
    });
}

TEST_CASE("of counts by rank the pieces lie one behind the other where they are together") {
    on_four_ranks([](hkt_comm* comm) {
        const int rank = hkt_comm_rank(comm);
        const std::size_t counts[] = {3, 0, 1000, 1}, begins[] = {0, 3, 3, 1003, 1004};
        const std::size_t own = counts[rank], begin = begins[rank], all = begins[4];
        Values whole(all), piece(own), received(all, -1);
        for (std::size_t i = 0; i < all; ++i) whole[i] = static_cast<std::int32_t>(i * i);
        std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(begin), own, piece.begin());

        must(comm, hkt_all_gather_v(piece.data(), received.data(), counts, HKT_INT32, comm, nullptr));
        expect(received == whole, "all_gather_v");
        Values part(own, -1), four(own);
        for (std::size_t i = 0; i < own; ++i) four[i] = 4 * piece[i];
        must(comm,
             hkt_reduce_scatter_v(whole.data(), part.data(), counts, HKT_INT32, HKT_SUM, comm, nullptr));
        expect(part == four, "reduce_scatter_v");
        for (int root = 0; root < 4; ++root) {
            received.assign(all, -1);
            must(comm, hkt_gather_v(piece.data(), rank == root ? received.data() : nullptr, counts, HKT_INT32,
                                    root, comm, nullptr));
            expect(rank != root || received == whole, "gather_v");
            part.assign(own, -1);
            must(comm, hkt_scatter_v(rank == root ? whole.data() : nullptr, part.data(), counts, HKT_INT32,
                                     root, comm, nullptr));
            expect(part == piece, "scatter_v");
        }
        // In place, and with a request.
        received.assign(all, -1);
        std::copy(piece.begin(), piece.end(), received.begin() + static_cast<std::ptrdiff_t>(begin));
        hkt_request* request = nullptr;
        must(comm,
             hkt_all_gather_v(received.data() + begin, received.data(), counts, HKT_INT32, comm, &request));
        must(comm, hkt_wait(request));
        expect(received == whole, "all_gather_v in place");
    });
}

TEST_CASE("a collective with counts by rank and the one without are two, and have two names") {
    for (const char* hosts : {"aa", "ab"}) {
        const auto outcomes = run_ranks({2, {{"HOCKET_TIMEOUT_MS", "30000"}}, 60}, [&](int rank) {
            setenv("HOCKET_HOST_ID", std::string(1, hosts[rank]).c_str(), 1);
            const Comm comm = join();
            const std::size_t counts[] = {4, 4};
            Values from(4, rank), to(8);
            const hkt_status status =
                rank == 0 ? hkt_all_gather_v(from.data(), to.data(), counts, HKT_INT32, comm.get(), nullptr)
                          : hkt_all_gather(from.data(), to.data(), 4, HKT_INT32, comm.get(), nullptr);
            const std::string told = hkt_comm_last_error(comm.get());
            expect(status == HKT_ERROR_MISMATCH, told);
            expect(told.find(rank == 0 ? "all_gather_v #0 (" : "all_gather #0 (") != told.npos, told);
        });
        INFO(hosts);
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("of counts by pair every rank gives its own, with displacements or without") {
    on_four_ranks([](hkt_comm* comm) {
        const int rank = hkt_comm_rank(comm);
        const auto count = [](int from, int to) {
            return static_cast<std::size_t>(from == to ? 2 : from == 1 ? 0 : to == 3 ? 1000 : 10 * from + to);
        };
        std::size_t sends[4], receives[4], send_at[4], receive_at[4], sent = 0, received = 0;
        for (int other = 0; other < 4; ++other) {
            sends[other] = count(rank, other), receives[other] = count(other, rank);
            sent += sends[other], received += receives[other];
        }
        Values packed, wanted;
        for (int other = 0; other < 4; ++other) {
            for (std::size_t i = 0; i < sends[other]; ++i) packed.push_back(message(rank, other, i));
            for (std::size_t i = 0; i < receives[other]; ++i) wanted.push_back(message(other, rank, i));
        }
        Values result(received, -1);
        must(comm, hkt_all_to_all_v(packed.data(), sends, nullptr, result.data(), receives, nullptr,
                                    HKT_INT32, comm, nullptr));
        expect(result == wanted, "packed");

        // The last rank's piece first, with one element before each.
        Values from(sent + 4, -2), to(received + 4, -2), placed = to;
        for (std::size_t other = 4, next_from = 0, next_to = 0; other-- > 0;) {
            send_at[other] = next_from + 1, receive_at[other] = next_to + 1;
            next_from += 1 + sends[other], next_to += 1 + receives[other];
            for (std::size_t i = 0; i < sends[other]; ++i)
                from[send_at[other] + i] = message(rank, static_cast<int>(other), i);
            for (std::size_t i = 0; i < receives[other]; ++i)
                placed[receive_at[other] + i] = message(static_cast<int>(other), rank, i);
        }
        hkt_request* request = nullptr;
        must(comm, hkt_all_to_all_v(from.data(), sends, send_at, to.data(), receives, receive_at, HKT_INT32,
                                    comm, &request));
        must(comm, hkt_wait(request));
        expect(to == placed, "with displacements");

        // In place: pieces of one length in both directions.
        std::size_t both[4], all = 0;
        for (int other = 0; other < 4; ++other)
            all += both[other] = static_cast<std::size_t>(100 * (rank + other));
        Values own;
        wanted.clear();
        for (int other = 0; other < 4; ++other)
            for (std::size_t i = 0; i < both[other]; ++i) {
                own.push_back(message(rank, other, i));
                wanted.push_back(message(other, rank, i));
            }
        must(comm, hkt_all_to_all_v(own.data(), both, nullptr, own.data(), both, nullptr, HKT_INT32, comm,
                                    nullptr));
        expect(own == wanted, "in place");
    });
}

TEST_CASE("counts by pair that two ranks give differently are an error on all, which names them") {
    for (const char* hosts : {"aaa", "abc"}) {
        const auto outcomes = run_ranks({3, {{"HOCKET_TIMEOUT_MS", "30000"}}, 60}, [&](int rank) {
            setenv("HOCKET_HOST_ID", std::string(1, hosts[rank]).c_str(), 1);
            const Comm comm = join();
            std::size_t sends[] = {1, 1, 1}, receives[] = {1, 1, 1};
            if (rank == 2) sends[0] = 4;
            Values from(6, rank), to(4, -1);
            hkt_status status = hkt_all_to_all_v(from.data(), sends, nullptr, to.data(), receives, nullptr,
                                                 HKT_INT32, comm.get(), nullptr);
            if (status == HKT_SUCCESS) status = hkt_barrier(comm.get());
            const std::string told = hkt_comm_last_error(comm.get());
            expect(status == HKT_ERROR_MISMATCH, told);
            expect(told.find("rank 2 sends 4 elements to rank 0, which expects 1") != told.npos, told);
            expect(to[3] == -1, "written behind the pieces");
        });
        INFO(hosts);
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a communicator whose schedule passes pieces on refuses counts by pair, and stays usable") {
    const auto outcomes = run_ranks({4, {{"HOCKET_SCHEDULE", "bruck"}}, 60}, [&](int) {
        const Comm comm = join();
        const std::size_t counts[] = {1, 1, 1, 1};
        Values from(4), to(4);
        const hkt_status status = hkt_all_to_all_v(from.data(), counts, nullptr, to.data(), counts, nullptr,
                                                   HKT_INT32, comm.get(), nullptr);
        const std::string told = hkt_comm_last_error(comm.get());
        expect(status == HKT_ERROR_SCHEDULE, told);
        expect(told.find("as direct and pairwise do") != told.npos, told);
        must(comm.get(), hkt_all_to_all(from.data(), to.data(), 1, HKT_INT32, comm.get(), nullptr));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("wrong arguments of counts by pair are refused, with words that name them") {
    const Comm comm = alone();
    Values x(16), y(16);
    const std::size_t four = 4, three = 3, none = 0, one = 1, huge = SIZE_MAX / 8, far = SIZE_MAX;
    const auto call = [&](const void* send, const std::size_t* send_count, const std::size_t* send_displ,
                          void* recv, const std::size_t* recv_count, const std::size_t* recv_displ) {
        return hkt_all_to_all_v(send, send_count, send_displ, recv, recv_count, recv_displ, HKT_INT32,
                                comm.get(), nullptr);
    };
    const auto refused = [&](hkt_status status, const char* words) {
        CHECK(status == HKT_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(hkt_comm_last_error(comm.get()), Contains(words));
    };
    refused(call(x.data(), nullptr, nullptr, y.data(), &four, nullptr), "send_counts is null");
    refused(call(x.data(), &four, nullptr, y.data(), nullptr, nullptr), "recv_counts is null");
    refused(call(nullptr, &four, nullptr, y.data(), &four, nullptr), "send is null");
    refused(call(x.data(), &four, nullptr, nullptr, &four, nullptr), "recv is null");
    refused(call(reinterpret_cast<char*>(x.data()) + 1, &four, nullptr, y.data(), &four, nullptr),
            "send is not aligned");
    refused(call(x.data(), &huge, nullptr, y.data(), &huge, nullptr), "does not fit");
    refused(call(x.data(), &four, &huge, y.data(), &four, nullptr),
            "in send the piece for rank 0 begins at element 2305843009213693951 (its displacement) and has 4 "
            "elements, which does not fit in memory (at most 35184372088832 int32 elements)");
    refused(call(x.data(), &four, nullptr, y.data(), &one, &huge), "in recv the piece from rank 0 begins");
    refused(
        call(x.data(), &four, &far, y.data(), &four, nullptr),
        "in send the piece for rank 0 begins at element 18446744073709551615 (its displacement) and has 4 "
        "elements: it ends at more than 2^64 - 1");
    refused(call(x.data(), &four, nullptr, y.data(), &four, &far), "in recv the piece from rank 0 begins");
    refused(call(x.data(), &four, nullptr, x.data() + 1, &four, nullptr),
            "the piece received from rank 0 overlaps the piece sent to rank 0");
    refused(call(x.data(), &four, nullptr, x.data(), &four, &one), "but this is not the in-place form");
    CHECK(hkt_all_to_all_v(x.data(), &four, nullptr, y.data(), &four, nullptr, HKT_INT32, nullptr, nullptr) ==
          HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_comm_status(comm.get()) == HKT_SUCCESS);
    CHECK(call(x.data(), &four, nullptr, y.data(), &three, nullptr) == HKT_ERROR_MISMATCH);
    CHECK_THAT(hkt_comm_last_error(comm.get()), Contains("rank 0 sends 4 elements to itself, and expects 3"));
    for (std::size_t i = 0; i < 16; ++i) x[i] = static_cast<std::int32_t>(i);
    CHECK(call(nullptr, &none, nullptr, nullptr, &none, nullptr) == HKT_SUCCESS);
    CHECK(call(nullptr, &none, &four, nullptr, &none, &four) == HKT_SUCCESS);
    CHECK(call(x.data(), &four, &one, y.data(), &four, &three) == HKT_SUCCESS);
    CHECK((y[2] == 0 && y[3] == 1 && y[6] == 4 && y[7] == 0));
    CHECK(call(x.data(), &four, &one, x.data(), &four, &one) == HKT_SUCCESS);
    CHECK((x[0] == 0 && x[1] == 1 && x[5] == 5));
    // In one buffer, but apart.
    const std::size_t eight = 8;
    CHECK(call(x.data(), &four, nullptr, x.data(), &four, &eight) == HKT_SUCCESS);
    CHECK((x[8] == 0 && x[11] == 3 && x[12] == 12));
    CHECK(hkt_comm_status(comm.get()) == HKT_SUCCESS);
}

TEST_CASE("pieces that are received must not overlap") {
    const auto outcomes = run_ranks({2, {}, 60}, [](int) {
        const Comm comm = join();
        Values from(8), to(8);
        const std::size_t counts[] = {3, 3}, displs[] = {4, 2}, both[] = {0, 0};
        hkt_status status = hkt_all_to_all_v(from.data(), counts, nullptr, to.data(), counts, displs,
                                             HKT_INT32, comm.get(), nullptr);
        const std::string told = hkt_comm_last_error(comm.get());
        expect(status == HKT_ERROR_INVALID_ARGUMENT, told);
        expect(told.find("received from rank 1 overlaps the piece received from rank 0") != told.npos, told);
        // One that takes its piece too far is named, with its rank.
        const std::size_t far[] = {0, SIZE_MAX / 8};
        expect(hkt_all_to_all_v(from.data(), counts, nullptr, to.data(), counts, far, HKT_INT32, comm.get(),
                                nullptr) == HKT_ERROR_INVALID_ARGUMENT,
               "a displacement of many EiB");
        const std::string words = hkt_comm_last_error(comm.get());
        expect(
            words.find("in recv the piece from rank 1 begins at element 2305843009213693951") != words.npos,
            words);
        // Sent pieces may overlap.
        must(comm.get(), hkt_all_to_all_v(from.data(), counts, both, to.data(), counts, nullptr, HKT_INT32,
                                          comm.get(), nullptr));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("an overlap that is not in place is refused, and the text says where send must point") {
    const auto outcomes = run_ranks({3, {}, 60}, [](int rank) {
        const Comm joined = join();
        hkt_comm* const comm = joined.get();
        Values x(16);
        const std::size_t counts[] = {3, 1, 2}, begins[] = {0, 3, 4};
        const auto refused = [&](hkt_status status, const std::string& words) {
            const std::string told = hkt_comm_last_error(comm);
            expect(status == HKT_ERROR_INVALID_ARGUMENT, told);
            expect(told.find("on rank " + std::to_string(rank) + " send must be recv" + words) != told.npos,
                   told);
        };
        const auto away = [](char sign, std::size_t elements) {
            return elements == 0
                       ? std::string()
                       : std::string(" ") + sign + " " + std::to_string(elements) + " element" +
                             (elements == 1 ? "" : "s") + " (" + std::to_string(4 * elements) + " bytes)";
        };
        const auto own = static_cast<std::size_t>(rank);
        refused(hkt_all_gather(x.data() + 5, x.data(), 2, HKT_INT32, comm, nullptr),
                away('+', 2 * own) + " then, and is recv + 5 elements (20 bytes)");
        refused(hkt_all_gather_v(x.data() + 5, x.data(), counts, HKT_INT32, comm, nullptr),
                away('+', begins[rank]) + " then, and is recv + 5 elements (20 bytes)");
        refused(hkt_reduce_scatter(x.data(), x.data() + 5, 2, HKT_INT32, HKT_SUM, comm, nullptr),
                away('-', 2 * own) + " then, and is recv - 5 elements (20 bytes)");
        refused(hkt_all_reduce(x.data() + 1, x.data(), 8, HKT_INT32, HKT_SUM, comm, nullptr),
                " then, and is recv + 1 element (4 bytes)");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("wrong arguments of these are refused, with words that name them") {
    const Comm comm = alone();
    Values x(8), y(8);
    const auto refused = [&](hkt_status status, const char* words) {
        CHECK(status == HKT_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(hkt_comm_last_error(comm.get()), Contains(words));
    };
    const std::size_t four = 4, none = 0, huge = SIZE_MAX / 8;
    refused(hkt_all_to_all(x.data(), x.data() + 1, 4, HKT_INT32, comm.get(), nullptr),
            "on rank 0 send must be recv then, and is recv - 1 element (4 bytes)");
    refused(hkt_all_to_all(nullptr, y.data(), 4, HKT_INT32, comm.get(), nullptr), "send is null");
    refused(hkt_all_gather_v(x.data(), y.data(), nullptr, HKT_INT32, comm.get(), nullptr), "counts is null");
    refused(hkt_all_gather_v(x.data(), nullptr, &four, HKT_INT32, comm.get(), nullptr), "recv is null");
    refused(hkt_reduce_scatter_v(x.data(), x.data() + 1, &four, HKT_INT32, HKT_SUM, comm.get(), nullptr),
            "overlap");
    refused(hkt_gather_v(x.data(), y.data(), &huge, HKT_INT32, 0, comm.get(), nullptr), "does not fit");
    refused(hkt_scatter_v(x.data(), y.data(), &four, HKT_INT32, 3, comm.get(), nullptr), "root is 3");
    refused(hkt_all_reduce(x.data(), y.data(), 4, HKT_BOOL, HKT_AVERAGE, comm.get(), nullptr),
            "average does not exist for bool");
    CHECK(hkt_all_gather_v(nullptr, nullptr, &none, HKT_INT32, comm.get(), nullptr) == HKT_SUCCESS);
    CHECK(hkt_all_gather_v(x.data(), x.data(), &four, HKT_INT32, comm.get(), nullptr) == HKT_SUCCESS);
    CHECK(hkt_comm_status(comm.get()) == HKT_SUCCESS);
}
