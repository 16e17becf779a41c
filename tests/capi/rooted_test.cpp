// The collectives that bring data to a root or from it, as an embedder calls them.
#include <hocket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/values.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using Catch::Contains;

namespace {

// A rank's place in a job, its operation, and the way to run it.
struct Call {
    hkt_comm* comm;
    int root;
    std::size_t count;
    bool in_place;

    int rank() const { return hkt_comm_rank(comm); }
    bool is_root() const { return rank() == root; }
    std::size_t whole() const { return count * static_cast<std::size_t>(hkt_comm_size(comm)); }
    std::size_t own() const { return count * static_cast<std::size_t>(rank()); }
    void must(hkt_status status) const {
        if (status != HKT_SUCCESS) throw std::runtime_error(hkt_comm_last_error(comm));
    }
    void want(const Values& got, const Values& wanted, const char* what) const {
        expect(got == wanted, std::string(what) + " of " + std::to_string(count) + ", root " +
                                  std::to_string(root) + (in_place ? ", in place" : ""));
    }
};

void reduce(const Call& call) {
    Values wanted(call.count);
    for (int rank = 0; rank < hkt_comm_size(call.comm); ++rank) {
        const Values theirs = input(rank, call.count);
        for (std::size_t i = 0; i < call.count; ++i) wanted[i] += theirs[i];
    }
    const Values mine = input(call.rank(), call.count);
    Values send = mine, recv(call.count, untouched);
    Values& result = call.in_place ? send : recv;
    call.must(hkt_reduce(send.data(), result.data(), call.count, HKT_INT32, HKT_SUM, call.root, call.comm,
                         nullptr));
    if (call.is_root()) return call.want(result, wanted, "reduce");
    call.want(send, mine, "what was sent to reduce");
    call.want(recv, Values(call.count, untouched), "the ignored recv of reduce");
    call.must(
        hkt_reduce(send.data(), nullptr, call.count, HKT_INT32, HKT_SUM, call.root, call.comm, nullptr));
}

void gather(const Call& call) {
    Values wanted;
    for (int rank = 0; rank < hkt_comm_size(call.comm); ++rank) {
        const Values theirs = input(rank, call.count);
        wanted.insert(wanted.end(), theirs.begin(), theirs.end());
    }
    const Values mine = input(call.rank(), call.count);
    Values send = mine, recv(call.whole(), untouched);
    const std::int32_t* from = send.data();
    if (call.in_place && call.is_root()) {
        std::copy(mine.begin(), mine.end(), recv.begin() + static_cast<std::ptrdiff_t>(call.own()));
        from = recv.data() + call.own();
    }
    call.must(hkt_gather(from, recv.data(), call.count, HKT_INT32, call.root, call.comm, nullptr));
    call.want(send, mine, "what was sent to gather");
    if (call.is_root()) return call.want(recv, wanted, "gather");
    call.want(recv, Values(call.whole(), untouched), "the ignored recv of gather");
    call.must(hkt_gather(send.data(), nullptr, call.count, HKT_INT32, call.root, call.comm, nullptr));
}

void scatter(const Call& call) {
    const Values all = input(call.root, call.whole());
    const Values wanted(all.begin() + static_cast<std::ptrdiff_t>(call.own()),
                        all.begin() + static_cast<std::ptrdiff_t>(call.own() + call.count));
    Values send = all, recv(call.count, untouched);
    std::int32_t* to = call.in_place && call.is_root() ? send.data() + call.own() : recv.data();
    call.must(hkt_scatter(call.is_root() ? send.data() : nullptr, to, call.count, HKT_INT32, call.root,
                          call.comm, nullptr));
    call.want(send, all, "what was sent to scatter");  // in place: the piece lies where it was
    call.want(Values(to, to + call.count), wanted, "scatter");
}

// The root's part, while the others call the operation once more without the arguments that they may omit.
void reduce_again(const Call& call) {
    Values send = input(call.rank(), call.count), recv(call.count);
    call.must(
        hkt_reduce(send.data(), recv.data(), call.count, HKT_INT32, HKT_SUM, call.root, call.comm, nullptr));
}
void gather_again(const Call& call) {
    Values send = input(call.rank(), call.count), recv(call.whole());
    call.must(hkt_gather(send.data(), recv.data(), call.count, HKT_INT32, call.root, call.comm, nullptr));
}

void everything(hkt_comm* comm) {
    for (int root = 0; root < hkt_comm_size(comm); ++root)
        for (const std::size_t count : {0, 1, 7, 1000, 65537})
            for (const bool in_place : {false, true}) {
                // Usually, roots have much data in place or not, by turns.
                if (!is_long_form() && count == 65537 && in_place != (root % 2 == 1)) continue;
                const Call call{comm, root, count, in_place};
                reduce(call);
                if (call.is_root()) reduce_again(call);
                gather(call);
                if (call.is_root()) gather_again(call);
                scatter(call);
            }
}

}  // namespace

TEST_CASE(
    "reduce, gather and scatter are right with every root, in place and not, by memory and by messages") {
    for (const char* provider : {"", "tcp"})
        for (const char* hosts : {"aaaa", "aabb"})
            for (const int ranks : {1, 2, 4}) {
                const auto outcomes =
                    run_ranks({ranks, {{"HOCKET_PROVIDER_FOR_ALL", provider}}, 120}, [&](int rank) {
                        setenv("HOCKET_HOST_ID", std::string(1, hosts[rank]).c_str(), 1);
                        everything(join().get());
                    });
                INFO(provider << " " << hosts << " " << ranks);
                CHECK(problems(outcomes) == "");
            }
}

TEST_CASE("wrong arguments of reduce, gather and scatter are refused, with words that name them") {
    const Comm comm = alone();
    Values x(8), y(8);
    const auto refused = [&](hkt_status status, const char* words) {
        CHECK(status == HKT_ERROR_INVALID_ARGUMENT);
        CHECK_THAT(hkt_comm_last_error(comm.get()), Contains(words));
    };
    const auto reduce = [&](const void* send, void* recv, hkt_op op = HKT_SUM, int root = 0) {
        return hkt_reduce(send, recv, 4, HKT_INT32, op, root, comm.get(), nullptr);
    };
    const auto gather = [&](const void* send, void* recv, int root = 0, std::size_t count = 4) {
        return hkt_gather(send, recv, count, HKT_INT32, root, comm.get(), nullptr);
    };
    const auto scatter = [&](const void* send, void* recv, int root = 0, std::size_t count = 4) {
        return hkt_scatter(send, recv, count, HKT_INT32, root, comm.get(), nullptr);
    };
    refused(reduce(x.data(), y.data(), HKT_SUM, 1), "root is 1");
    refused(gather(x.data(), y.data(), -1), "root is -1");
    refused(scatter(x.data(), y.data(), 7), "root is 7");
    refused(reduce(x.data(), y.data(), static_cast<hkt_op>(200)), "operator is 200");
    refused(reduce(nullptr, y.data()), "send is null");
    refused(gather(nullptr, y.data()), "send is null");
    refused(scatter(nullptr, y.data()), "send is null");
    refused(reduce(x.data(), nullptr), "recv is null");
    refused(gather(x.data(), nullptr), "recv is null");
    refused(scatter(x.data(), nullptr), "recv is null");
    refused(gather(reinterpret_cast<char*>(x.data()) + 1, y.data()), "send is not aligned");
    refused(scatter(x.data(), reinterpret_cast<char*>(y.data()) + 2), "recv is not aligned");
    refused(reduce(x.data(), x.data() + 1), "overlap");
    refused(gather(x.data(), y.data(), 0, SIZE_MAX), "does not fit");
    refused(scatter(x.data(), y.data(), 0, SIZE_MAX), "does not fit");
    CHECK(hkt_reduce(x.data(), y.data(), 4, HKT_INT32, HKT_SUM, 0, nullptr, nullptr) ==
          HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Contains("hkt_reduce"));
    CHECK(hkt_gather(x.data(), y.data(), 4, HKT_INT32, 0, nullptr, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Contains("hkt_gather"));
    CHECK(hkt_scatter(x.data(), y.data(), 4, HKT_INT32, 0, nullptr, nullptr) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Contains("hkt_scatter"));
    CHECK(hkt_comm_status(comm.get()) == HKT_SUCCESS);  // a refused call breaks nothing
    CHECK(gather(x.data(), x.data()) == HKT_SUCCESS);
    CHECK(hkt_gather(nullptr, nullptr, 0, HKT_INT32, 0, comm.get(), nullptr) == HKT_SUCCESS);
}

TEST_CASE("what is ignored may be anything, and what overlaps must be in place") {
    const auto outcomes = run_ranks({3}, [](int rank) {
        const Comm joined = join();
        hkt_comm* comm = joined.get();
        const int root = 1;
        const bool is_root = rank == root;
        const auto must = [&](hkt_status status) {
            expect(status == HKT_SUCCESS, hkt_comm_last_error(comm));
        };
        const auto refused = [&](hkt_status status) {
            expect(status == HKT_ERROR_INVALID_ARGUMENT, "it was not refused");
            expect(std::string(hkt_comm_last_error(comm)).find("overlap") != std::string::npos,
                   hkt_comm_last_error(comm));
        };
        Values all = input(rank, 3000);
        std::int32_t *first = all.data(), *own = all.data() + rank * 1000;
        auto* crooked = reinterpret_cast<char*>(first) + 1;
        if (is_root) refused(hkt_gather(first, first, 1000, HKT_INT32, root, comm, nullptr));
        must(hkt_gather(own, is_root ? static_cast<void*>(first) : crooked, 1000, HKT_INT32, root, comm,
                        nullptr));
        if (is_root) refused(hkt_scatter(first, first, 1000, HKT_INT32, root, comm, nullptr));
        must(hkt_scatter(is_root ? static_cast<void*>(first) : crooked, own, 1000, HKT_INT32, root, comm,
                         nullptr));
        expect(std::equal(own, own + 1000, input(rank, 3000).begin() + rank * 1000), "the piece is another");
        if (is_root) refused(hkt_reduce(first, first + 1, 1000, HKT_INT32, HKT_MAX, root, comm, nullptr));
        must(hkt_reduce(first, is_root ? static_cast<void*>(first) : crooked, 1000, HKT_INT32, HKT_MAX, root,
                        comm, nullptr));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("plans of reduce, gather and scatter have a root of their own") {
    const auto outcomes = run_ranks({3}, [](int rank) {
        const Comm joined = join();
        hkt_comm* comm = joined.get();
        const auto plan_of = [&](hkt_collective collective, hkt_op op, int root) {
            hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
            options.root = root;
            options.schedule = "binomial";
            hkt_plan* plan = nullptr;
            expect(hkt_plan_create(comm, collective, HKT_INT32, op, &options, &plan) == HKT_SUCCESS,
                   hkt_comm_last_error(comm));
            return plan;
        };
        constexpr auto nonsense = static_cast<hkt_op>(77);  // ignored where nothing is combined
        hkt_plan *gather = plan_of(HKT_GATHER, nonsense, 2), *scatter = plan_of(HKT_SCATTER, nonsense, 0),
                 *reduce = plan_of(HKT_REDUCE, HKT_MIN, 1);
        const Values mine = input(rank, 500);
        Values all(1500, untouched), part(500, untouched), least(500, untouched);
        std::vector<hkt_request*> requests(3);
        const auto must = [&](hkt_status status) {
            expect(status == HKT_SUCCESS, hkt_comm_last_error(comm));
        };
        must(hkt_plan_start(gather, mine.data(), all.data(), 500, &requests[0]));
        const Values whole = input(0, 1500);
        must(hkt_plan_start(scatter, whole.data(), part.data(), 500, &requests[1]));
        must(hkt_plan_start(reduce, mine.data(), least.data(), 500, &requests[2]));
        for (hkt_request* request : requests) must(hkt_wait(request));
        for (int from = 0; from < 3; ++from)
            expect(rank != 2 || std::equal(all.begin() + from * 500, all.begin() + (from + 1) * 500,
                                           input(from, 500).begin()),
                   "gather");
        expect(rank == 2 || all == Values(1500, untouched), "gather wrote to a rank that is not the root");
        expect(std::equal(part.begin(), part.end(), whole.begin() + rank * 500), "scatter");
        expect(least == (rank == 1 ? input(0, 500) : Values(500, untouched)), "reduce");
        for (hkt_plan* plan : {gather, scatter, reduce}) hkt_plan_destroy(plan);

        hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
        options.root = 3;
        hkt_plan* plan = nullptr;
        expect(hkt_plan_create(comm, HKT_GATHER, HKT_INT32, HKT_SUM, &options, &plan) ==
                   HKT_ERROR_INVALID_ARGUMENT,
               "a root beyond the ranks was taken");
        expect(std::string(hkt_comm_last_error(comm)).find("root is 3") != std::string::npos,
               hkt_comm_last_error(comm));
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("ranks that differ in collective or root are told") {
    const auto differing = [](const std::function<hkt_status(hkt_comm*, int, Values&, Values&)>& start) {
        return problems(run_ranks({2, {{"HOCKET_TIMEOUT_MS", "5000"}}}, [&](int rank) {
            const Comm comm = join();
            Values send = input(rank, 2000), recv(2000);
            hkt_status status = start(comm.get(), rank, send, recv);
            if (status == HKT_SUCCESS) status = hkt_barrier(comm.get());  // it had only to send
            expect(status == HKT_ERROR_MISMATCH, hkt_comm_last_error(comm.get()));
            expect(std::string(hkt_comm_last_error(comm.get())).find("different operations") !=
                       std::string::npos,
                   hkt_comm_last_error(comm.get()));
        }));
    };
    CHECK(differing([](hkt_comm* comm, int rank, Values& send, Values& recv) {
              return hkt_reduce(send.data(), recv.data(), 2000, HKT_INT32, HKT_SUM, rank, comm, nullptr);
          }) == "");
    CHECK(differing([](hkt_comm* comm, int rank, Values& send, Values& recv) {
              return rank == 0 ? hkt_gather(send.data(), recv.data(), 1000, HKT_INT32, 0, comm, nullptr)
                               : hkt_scatter(send.data(), recv.data(), 1000, HKT_INT32, 0, comm, nullptr);
          }) == "");
    CHECK(differing([](hkt_comm* comm, int rank, Values& send, Values& recv) {
              return hkt_gather(send.data(), recv.data(), 1000, HKT_INT32, 1 - rank, comm, nullptr);
          }) == "");
}
