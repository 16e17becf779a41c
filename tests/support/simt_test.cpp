// That kernels which no device may run end with an error that says why.
#include "tests/support/simt.hpp"
#include "tests/support/test.hpp"

#include <set>
#include <vector>

using namespace hocket;
using Catch::Matchers::Contains;

namespace {

// A macro's argument is all on one line, and barriers are distinguished by their lines.
void at_two_barriers() {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}

void wait_for_each_other() {
    if (threadIdx.x == 7) __syncwarp();
    __syncthreads();
}

}  // namespace

TEST_CASE("simt: threads of a block share variables, and blocks do not") {
    std::vector<unsigned> sums(20);
    simt::seed(1);
    simt::launch(20, 96, [&] {
        HOCKET_SHARED(unsigned[96], numbers);
        numbers[threadIdx.x] = blockIdx.x + threadIdx.x;
        __syncthreads();
        unsigned sum = 0;
        for (const unsigned number : numbers) sum += number;
        if (threadIdx.x == blockIdx.x) sums[blockIdx.x] = sum;
        __syncthreads();
    });
    for (unsigned block = 0; block < 20; ++block) CHECK(sums[block] == 96 * block + 95 * 96 / 2);
}

TEST_CASE("simt: warp operations") {
    simt::seed(2);
    std::vector<unsigned> ballots(40), from_5(40), from_below(40), from_above(40), same(40), either(40);
    simt::launch(1, 40, [&] {
        const unsigned i = threadIdx.x, mask = i < 32 ? ~0u : 0xffu;
        ballots[i] = __ballot_sync(mask, i % 3 == 0);
        from_5[i] = __shfl_sync(mask, i, 5);
        from_below[i] = __shfl_up_sync(mask, i, 2);
        from_above[i] = i < 32 ? __shfl_down_sync(mask, i, 2) : 0;
        same[i] = __match_any_sync(mask, i % 2);
        either[i] = __reduce_or_sync(mask, i == 31 ? 5 : i / 32 * 64);
    });
    CHECK(ballots[1] == 0x49249249u);
    CHECK(ballots[39] == 0x92u);
    CHECK(from_5[31] == 5);
    CHECK(from_5[32] == 37);
    CHECK(from_below[1] == 1);
    CHECK(from_below[31] == 29);
    CHECK(from_above[29] == 31);
    CHECK(from_above[30] == 30);
    CHECK(same[3] == 0xaaaaaaaau);
    CHECK(same[38] == 0x55u);
    CHECK(either[3] == 5);
    CHECK(either[39] == 64);
}

TEST_CASE("simt: blocks and threads run in an order that the seed decides") {
    const auto order = [](std::uint64_t seed) {
        std::vector<unsigned> ran;
        simt::seed(seed);
        simt::launch(6, 64, [&] { ran.push_back(blockIdx.x * 64 + threadIdx.x); });
        return ran;
    };
    CHECK(order(1) == order(1));
    CHECK(order(1) != order(2));
    const std::vector<unsigned> ran = order(3);
    CHECK(std::set<unsigned>(ran.begin(), ran.end()).size() == 6 * 64);
}

TEST_CASE("simt: a barrier that some threads never reach is an error") {
    CHECK_THROWS_WITH(simt::launch(3, 64,
                                   [] {
                                       if (threadIdx.x < 60) __syncthreads();
                                   }),
                      Contains("__syncthreads (simt_test.cpp:") && Contains("has ended"));
    // Threads that wait for each other.
    CHECK_THROWS_WITH(
        simt::launch(1, 64, wait_for_each_other),
        Contains("no thread can go on") && Contains("1 threads, one of them 7, wait at a warp operation"));
}

TEST_CASE("simt: different barriers at a time are an error") {
    CHECK_THROWS_WITH(simt::launch(1, 64, at_two_barriers), Contains("is at another __syncthreads"));
}

TEST_CASE("simt: a warp operation that some lanes never reach is an error") {
    CHECK_THROWS_WITH(simt::launch(1, 32,
                                   [] {
                                       if (threadIdx.x != 3) __ballot_sync(~0u, true);
                                   }),
                      Contains("ended"));
    CHECK_THROWS_WITH(simt::launch(1, 32, [] { __syncwarp(threadIdx.x < 8 ? 0xff : ~0u); }),
                      Contains("another mask") || Contains("no thread can go on"));
    CHECK_THROWS_WITH(simt::launch(1, 32, [] { __syncwarp(1); }), Contains("own lane"));
    CHECK_THROWS_WITH(simt::launch(1, 20, [] { __syncwarp(); }), Contains("no thread for some"));
    CHECK_THROWS_WITH(simt::launch(1, 32,
                                   [] {
                                       if (threadIdx.x < 16)
                                           __syncwarp();
                                       else
                                           __ballot_sync(~0u, true);
                                   }),
                      Contains("another operation"));
    CHECK_THROWS_WITH(simt::launch(1, 32, [] { __shfl_sync(threadIdx.x < 8 ? 0xff : ~0xffu, 1, 9); }),
                      Contains("a shuffle reads"));
}

TEST_CASE("simt: to wait for a block that need not have started is an error") {
    // Each block waits for the one with the number above its own: no order of starts is promised.
    std::vector<std::uint64_t> told(65);
    told[64] = 1;
    simt::seed(3);
    CHECK_THROWS_WITH(simt::launch(64, 1,
                                   [&] {
                                       while (kernels::cuda::load_acquire(&told[blockIdx.x + 1]) == 0) {
                                       }
                                       kernels::cuda::store_release(&told[blockIdx.x], 1);
                                   }),
                      Contains("a wait does not end"));
}

TEST_CASE("simt: launches go on after one that failed") {
    unsigned ran = 0;
    CHECK_THROWS(simt::launch(4, 256, [] { throw std::runtime_error("wrong"); }));
    simt::launch(4, 256, [&] {
        __syncthreads();
        atomicAdd(&ran, 1u);
    });
    CHECK(ran == 1024);
}
