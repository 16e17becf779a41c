// Collectives that schedule files define, as an embedder calls them.
#include <hocket.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/values.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using Catch::Contains;

namespace {

constexpr int ranks = 4;

class Plan {
  public:
    Plan(hkt_comm* comm, const char* collective, hkt_op op = HKT_SUM, const char* schedule = nullptr,
         int root = 0)
        : comm_(comm) {
        hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
        options.collective = collective, options.schedule = schedule, options.root = root;
        must(comm, hkt_plan_create(comm, HKT_ALL_REDUCE, HKT_INT32, op, &options, &plan_));
    }
    ~Plan() { hkt_plan_destroy(plan_); }
    Plan(const Plan&) = delete;

    void run(const void* send, void* recv, std::size_t count) {
        must(comm_, hkt_plan_start(plan_, send, recv, count, nullptr));
    }
    std::vector<std::size_t> extents(std::size_t count) {
        std::size_t send = 9, recv = 9;
        must(comm_, hkt_plan_extents(plan_, count, &send, &recv));
        return {send, recv};
    }

  private:
    hkt_comm* comm_;
    hkt_plan* plan_ = nullptr;
};

Values sum_of(int first, int last, std::size_t count) {
    Values sum(count);
    for (int rank = first; rank < last; ++rank) {
        const Values one = input(rank, count);
        for (std::size_t i = 0; i < count; ++i) sum[i] += one[i];
    }
    return sum;
}

void check_scans(hkt_comm* comm, int rank, std::size_t count) {
    for (const char* schedule : {"chain", "doubling"}) {
        Plan inclusive(comm, "scan", HKT_SUM, schedule), exclusive(comm, "exclusive_scan", HKT_SUM, schedule);
        expect(exclusive.extents(count) == std::vector<std::size_t>{count, rank == 0 ? 0 : count},
               "the extents of exclusive_scan");
        Values x = input(rank, count), out(count, untouched);
        inclusive.run(x.data(), x.data(), count);
        expect(x == sum_of(0, rank + 1, count), "scan, in place");
        const Values again = input(rank, count);
        exclusive.run(again.data(), rank == 0 ? nullptr : out.data(), count);
        expect(again == input(rank, count), "exclusive_scan wrote to its send buffer");
        expect(out == (rank == 0 ? Values(count, untouched) : sum_of(0, rank, count)), "exclusive_scan");
    }
}

void check_neighbours(hkt_comm* comm, int rank, std::size_t count) {
    Plan around(comm, "neighbours"), ends(comm, "halo"), next(comm, "all_to_next");
    expect(around.extents(count) == std::vector<std::size_t>{count, ranks * count},
           "the extents of neighbours");
    const Values x = input(rank, count);
    for (Plan* plan : {&around, &ends}) {
        Values all(ranks * count, untouched);
        plan->run(x.data(), all.data(), count);
        for (int from = 0; from < ranks; ++from) {
            const int apart = plan == &ends ? std::abs(from - rank) : (from - rank + ranks) % ranks;
            if (apart > 1 && (plan == &ends || apart != ranks - 1)) continue;
            const auto at = all.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(from) * count);
            expect(Values(at, at + static_cast<std::ptrdiff_t>(count)) == input(from, count),
                   "a neighbour's piece");
        }
    }
    Values out(count, untouched);
    next.run(x.data(), out.data(), count);
    expect(out == (rank == 0 ? Values(count, untouched) : input(rank - 1, count)), "all_to_next");
}

// On hosts of so many ranks; 0: all on one.
std::string run_on(int ranks_of_a_host) {
    return problems(run_ranks({ranks, {{"HOCKET_EXECUTOR", "interpreter"}}}, [&](int rank) {
        if (ranks_of_a_host > 0)
            setenv("HOCKET_HOST_ID", ("host" + std::to_string(rank / ranks_of_a_host)).c_str(), 1);
        const Comm comm = join();
        for (const std::size_t count : {0, 1, 7, 1000, 300'000}) {
            check_scans(comm.get(), rank, count);
            check_neighbours(comm.get(), rank, count);
        }
    }));
}

}  // namespace

TEST_CASE("own collectives run in the memory of a host, over TCP, and over both") {
    CHECK(run_on(0) == "");
    CHECK(run_on(1) == "");
    CHECK(run_on(2) == "");
}

TEST_CASE("a program names a collective of its own file, with a root, and is told what is wrong") {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/own.sched";
    std::ofstream(path) << R"(
collective to_two(x, root) over g {
    before each r in g  x : r
    after { x : root = combined x : g  x : root + 1 = combined x : g }
}
algorithm direct to_two(x, root) over g {
    each r in g where r != root  x : r +> root
    x : root -> root + 1
}
algorithm short to_two(x, root) over g {
    each r in g where r != root  x : r +> root
}
)";
    const auto outcomes = run_ranks({ranks, {{"HOCKET_EXECUTOR", "interpreter"}}}, [&](int rank) {
        const Comm comm = join();
        Plan plan(comm.get(), "to_two", HKT_SUM, (path + ":direct").c_str(), 3);
        const bool gets = rank == 3 || rank == 0;
        Values x = input(rank, 100), out(100, untouched);
        plan.run(x.data(), gets ? out.data() : nullptr, 100);
        expect(out == (gets ? sum_of(0, ranks, 100) : Values(100, untouched)), "to_two");

        hkt_plan* refused = nullptr;
        hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
        const auto failure = [&](const char* collective, const std::string& schedule, hkt_op op,
                                 hkt_status status) {
            options.collective = collective, options.schedule = schedule.empty() ? nullptr : schedule.c_str();
            return failure_of(comm.get(),
                              hkt_plan_create(comm.get(), HKT_ALL_REDUCE, HKT_INT32, op, &options, &refused),
                              status);
        };
        const auto has = [](const std::string& text, const char* part) {
            expect(text.find(part) != std::string::npos, text);
        };
        has(failure("to_two", path + ":short", HKT_SUM, HKT_ERROR_SCHEDULE),
            "the contract's statement that is not met");
        has(failure("skan", "", HKT_SUM, HKT_ERROR_NOT_FOUND), "did you mean 'scan'");
        has(failure("scan", "", HKT_AVERAGE, HKT_ERROR_INVALID_ARGUMENT), "use sum, and divide the results");
    });
    CHECK(problems(outcomes) == "");
}
