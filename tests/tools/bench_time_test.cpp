// An iteration's time is never less than its work: with real ranks, and with a rank that starts late.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/test.hpp"
#include "tools/bench/comm.hpp"
#include "tools/bench/time.hpp"

using namespace hocket::bench;
using hocket::test::expect;
using hocket::test::now_ms;

namespace {

constexpr int ranks = 3, iterations = 6;

// Its root sends and is done early; the others work on.
void broadcast(hkt_comm* comm, std::vector<float>& values) {
    check(hkt_broadcast(values.data(), values.data(), values.size(), HKT_FLOAT32, 0, comm, nullptr), comm,
          "broadcast failed");
}

struct Seen {  // by one rank, inside one iteration
    double start_ms, end_ms;
};

}  // namespace

TEST_CASE("an iteration lasts from the first rank's start to the last rank's end") {
    CHECK(problems(hocket::test::run_ranks({ranks}, [](int rank) {
              const Comm comm = join({});
              // Rank 1 leaves the barrier late and finds its work done: its own time, and the time since it
              // started, are 1 us. In the second iteration rank 2 ends late.
              const std::vector<std::int64_t> starts{rank == 1 ? 75'000 : rank, 1'000'000};
              const std::vector<std::int64_t> ends{starts[0] + (rank == 1 ? 1'000 : 500),
                                                   rank == 2 ? 1'009'000 : 1'001'000};
              const Timing timing = timing_of_spans(comm.get(), starts, ends);
              expect(timing.spans_us == std::vector<double>{9, 76}, "spans on rank " + std::to_string(rank));
              expect(timing.time_us == 42.5, "median");
              expect(timing.start_skew_us == 37.5, "skew");
          })) == "");
}

TEST_CASE("no time is less than what the ranks saw inside the iteration") {
    const Method method = GENERATE(Method::span, Method::back_to_back);
    auto* seen = static_cast<Seen*>(hocket::test::shared_memory(ranks * iterations * sizeof(Seen)));
    auto* told_us = static_cast<double*>(hocket::test::shared_memory(2 * ranks * sizeof(double)));
    CHECK(problems(hocket::test::run_ranks({ranks}, [&](int rank) {
              const Comm comm = join({});
              std::vector<float> values(5000);
              int calls = 0;
              const auto once = [&](int) {
                  Seen& mine = seen[rank * iterations + calls++];
                  mine.start_ms = now_ms();
                  broadcast(comm.get(), values);
                  if (rank == 2) usleep(2000);
                  mine.end_ms = now_ms();
              };
              const Timing timing = measure(comm.get(), {method, 0, iterations}, 1, once).at(0);
              told_us[2 * rank] = timing.time_us;
              told_us[2 * rank + 1] = timing.spans_us.empty() ? 0 : timing.spans_us.back();
              expect(calls == iterations, "calls");
          })) == "");
    double longest_us = 0, first_ms = seen[0].start_ms, last_ms = 0;
    for (int i = 0; i < iterations; ++i) {
        double start = seen[i].start_ms, end = 0;
        for (int rank = 0; rank < ranks; ++rank) {
            start = std::min(start, seen[rank * iterations + i].start_ms);
            end = std::max(end, seen[rank * iterations + i].end_ms);
        }
        longest_us = std::max(longest_us, (end - start) * 1e3);
        first_ms = std::min(first_ms, start);
        last_ms = std::max(last_ms, end);
    }
    const double rounding_us = 0.01;
    for (int rank = 0; rank < ranks; ++rank) {
        CHECK(told_us[2 * rank] == told_us[0]);  // the same on every rank
        CHECK(told_us[2 * rank] >= 2000);
        if (method == Method::span)
            CHECK(told_us[2 * rank + 1] >= longest_us - rounding_us);
        else
            CHECK(told_us[2 * rank] >= (last_ms - first_ms) * 1e3 / iterations - rounding_us);
    }
}

TEST_CASE("the ranks of one host share a clock") {
    CHECK(problems(hocket::test::run_ranks({2}, [](int) {
              const Comm comm = join({});
              expect(share_clock(comm.get()), "one clock");
          })) == "");
}

TEST_CASE("the plan says which schedule it runs") {
    CHECK(problems(hocket::test::run_ranks({2}, [](int) {
              const Comm comm = join({});
              Options options;
              options.schedule = "ring";
              const Plan plan =
                  make_plan(comm.get(), options, HKT_FLOAT32, HKT_SUM, 0, HKT_EXECUTOR_INTERPRETER);
              expect(schedule_of(plan.get()) == "ring", schedule_of(plan.get()));
              expect(!all_agree(comm.get(), hkt_comm_rank(comm.get()) == 0), "all_agree");
          })) == "");
}
