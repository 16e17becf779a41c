// all_to_all, averages, and the collectives with a count for each rank, as an embedder calls them.
#include <hocket.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using Catch::Contains;

namespace {

using Values = std::vector<std::int32_t>;

struct Destroy {
    void operator()(hkt_comm* comm) const { hkt_comm_destroy(comm); }
};
using Comm = std::unique_ptr<hkt_comm, Destroy>;

Comm join(const hkt_comm_options* options = nullptr) {
    hkt_comm* comm = nullptr;
    if (hkt_comm_create(options, &comm) != HKT_SUCCESS) throw std::runtime_error(hkt_last_error());
    return Comm(comm);
}

Comm alone() {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.rank = 0;
    options.world_size = 1;
    return join(&options);
}

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

void must(hkt_comm* comm, hkt_status status) {
    if (status != HKT_SUCCESS) throw std::runtime_error(hkt_comm_last_error(comm));
}

// What rank `from` has for rank `to`.
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
    });
}

TEST_CASE("counts by rank: the pieces lie one behind the other where they are together") {
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

TEST_CASE("wrong arguments of these are refused, with words that name them") {
    const Comm comm = alone();
    Values x(8), y(8);
    const auto refused = [&](hkt_status status, const char* words) {
        CHECK(status == HKT_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(hkt_comm_last_error(comm.get()), Contains(words));
    };
    const std::size_t four = 4, none = 0, huge = SIZE_MAX / 8;
    refused(hkt_all_to_all(x.data(), x.data() + 1, 4, HKT_INT32, comm.get(), nullptr), "overlap");
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
