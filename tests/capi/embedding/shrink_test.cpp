// Ranks die, and those that are left go on without a restart.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/embedding/ways.hpp"
#include "tests/capi/jobs_at_once.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/restrictions.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

std::vector<std::int32_t> lost_of(hkt_comm* comm) {
    std::size_t count = 0;
    must(comm, hkt_comm_lost(comm, nullptr, 0, &count));
    std::vector<std::int32_t> ranks(count);
    must(comm, hkt_comm_lost(comm, ranks.data(), ranks.size(), &count));
    return ranks;
}

// Works until a rank is lost; returns false then, and true once `rounds` are over.
bool work_until_lost(hkt_comm* comm, std::int64_t mine, std::int64_t expected, int rounds) {
    std::vector<std::int64_t> data(5000);
    for (int round = 0; round < rounds; ++round) {
        std::fill(data.begin(), data.end(), mine);
        const hkt_status status =
            hkt_all_reduce(data.data(), data.data(), data.size(), HKT_INT64, HKT_SUM, comm, nullptr);
        if (status == HKT_ERROR_PEER_LOST || status == HKT_ERROR_ABORTED) return false;
        must(comm, status);
        for (const std::int64_t value : data)
            expect(value == expected, [&] {
                return "the sum is " + std::to_string(value) + ", not " + std::to_string(expected);
            });
    }
    return true;
}

Comm shrunken(hkt_comm* comm) {
    hkt_comm* made = nullptr;
    must(comm, hkt_comm_shrink(comm, &made));
    return Comm(made);
}

std::int64_t sum_of(const std::vector<int>& ranks) {
    std::int64_t sum = 0;
    for (const int rank : ranks) sum += rank;
    return sum;
}

}  // namespace

TEST_CASE("after a loss the ranks that are left go on, whoever was lost") {
    int number = 0;
    for (const auto& way : ways)
        for (const std::vector<int>& victims :
             {std::vector<int>{0}, {2}, {4}, {0, 1}, {1, 3}, {0, 4}, {1, 2, 3, 4}}) {
            if (number++ % in_long_form(1, 3) != 0) continue;
            const auto is_victim = [&](int rank) {
                return std::find(victims.begin(), victims.end(), rank) != victims.end();
            };
            const auto outcomes = run_ranks({5, way}, [&](int rank) {
                Comm comm = join();
                expect(lost_of(comm.get()).empty(), "nobody is lost");
                const bool are_all_there = work_until_lost(comm.get(), rank, 10, 20);
                if (is_victim(rank)) {
                    expect(are_all_there || victims.size() > 1, "nobody has died before");
                    raise(SIGKILL);
                }
                while (work_until_lost(comm.get(), rank, 10, 1)) continue;
                const Comm left = shrunken(comm.get());
                std::vector<int> survivors;
                for (int each = 0; each < 5; ++each)
                    if (!is_victim(each)) survivors.push_back(each);
                expect(hkt_comm_size(left.get()) == static_cast<int>(survivors.size()), "how many are left");
                expect(survivors[static_cast<std::size_t>(hkt_comm_rank(left.get()))] == rank, "the order");
                const auto lost = lost_of(comm.get());
                expect(lost.size() == victims.size() && std::equal(lost.begin(), lost.end(), victims.begin()),
                       "the numbers of the lost ranks");
                expect(lost_of(left.get()).empty(), "nobody of those that are left is lost");
                expect(work_until_lost(left.get(), rank, sum_of(survivors), 20), "those that are left work");
                comm.reset();
                expect(work_until_lost(left.get(), rank, sum_of(survivors), 20),
                       "also when the old one is gone");
            });
            for (int rank = 0; rank < 5; ++rank) {
                INFO("rank " << rank << " " << outcomes[static_cast<std::size_t>(rank)].text);
                CHECK(outcomes[static_cast<std::size_t>(rank)].signal == (is_victim(rank) ? SIGKILL : 0));
                CHECK(outcomes[static_cast<std::size_t>(rank)].text == "");
            }
        }
}

TEST_CASE("nobody has to be lost, and one rank may be all that is left") {
    const auto outcomes = run_ranks({3}, [](int rank) {
        const Comm comm = join();
        hkt_barrier(comm.get());  // all have one
        if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
        const Comm same = shrunken(comm.get());
        expect(hkt_comm_size(same.get()) == 3 && hkt_comm_rank(same.get()) == rank, "all are left");
        expect(work_until_lost(same.get(), rank, 3, 5), "they work");
        failure_of(comm.get(), hkt_barrier(comm.get()), HKT_ERROR_ABORTED);
        const Comm own = alone();
        const Comm still = shrunken(own.get());
        expect(hkt_comm_size(still.get()) == 1, "a world of one");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a rank that stands still is given up by all together, and does not go on by itself") {
    constexpr int late_ranks[] = {0, 3};  // in two jobs at the same time
    struct Progress {
        std::atomic<int> have_gone_on, have_tried;
    };
    auto* const of_jobs = static_cast<Progress*>(shared_memory(2 * sizeof(Progress)));
    const auto wait_for = [](const std::atomic<int>& number, int least) {
        while (number < least) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    };
    const JobsAtOnce at_once(2, 4);
    const auto outcomes = run_ranks({8, {{"HOCKET_TIMEOUT_MS", "5000"}}, 100}, [&](int process) {
        const auto job = static_cast<std::size_t>(process) / 4;
        const int rank = process % 4, late = late_ranks[job];
        auto& [have_gone_on, have_tried] = of_jobs[job];
        const Comm comm = at_once.join(job, rank);
        if (rank == 1) {
            work_until_lost(comm.get(), rank, 6, 1);  // until all have joined
            raise(SIGKILL);
        }
        while (work_until_lost(comm.get(), rank, 6, 1)) continue;
        hkt_comm* made = nullptr;
        if (rank == late) {
            wait_for(have_gone_on, 2);
            for (int attempt = 0; attempt < 3; ++attempt)
                expect(hkt_comm_shrink(comm.get(), &made) < 0 && made == nullptr, "a world of its own");
            ++have_tried;
            const std::string text = hkt_comm_last_error(comm.get());
            expect(text.find("perhaps they have gone on without it") != std::string::npos, text);
            return;
        }
        failure_of(comm.get(), hkt_comm_shrink(comm.get(), &made), HKT_ERROR_TIMEOUT);
        const Comm left = shrunken(comm.get());
        expect(hkt_comm_size(left.get()) == 2, "the two that are left");
        expect(work_until_lost(left.get(), rank, late == 0 ? 5 : 2, 10), "they work");
        ++have_gone_on;
        wait_for(have_tried, 1);  // a rank that has ended is known to be gone
    });
    for (int process = 0; process < 8; ++process) {
        INFO("late: " << late_ranks[process / 4] << ", rank " << process % 4);
        CHECK(outcomes[static_cast<std::size_t>(process)].text == "");
        CHECK(outcomes[static_cast<std::size_t>(process)].signal == (process % 4 == 1 ? SIGKILL : 0));
    }
}

// The test ends before the first rendezvous would. The rank knows of the failure for longer than the others
// waited for it: they may have gone on, even if they have ended since.
TEST_CASE(
    "a rank that comes when the others have gone on without it and have ended does not go on by itself") {
    struct Case {
        int late;
        bool are_killed;
    };
    constexpr Case cases[] = {{0, false}, {0, true}, {1, false}, {1, true}};  // in jobs at the same time
    constexpr std::size_t jobs = std::size(cases);
    const JobsAtOnce at_once(jobs, 3);
    const std::vector<Tally> know(jobs), done(jobs);
    const auto outcomes = run_ranks({3 * jobs, {{"HOCKET_TIMEOUT_MS", "3000"}}}, [&](int process) {
        const auto job = static_cast<std::size_t>(process) / 3;
        const int rank = process % 3;
        const auto [late, are_killed] = cases[job];
        const Comm comm = at_once.join(job, rank);
        must(comm.get(), hkt_barrier(comm.get()));
        if (rank != late) {
            failure_of(comm.get(), hkt_barrier(comm.get()), HKT_ERROR_TIMEOUT);
            know[job].await(1);  // they wait for it from now on
            hkt_comm* made = nullptr;
            while (hkt_comm_shrink(comm.get(), &made) == HKT_ERROR_TIMEOUT) continue;
            const Comm left(made);
            expect(made != nullptr && hkt_comm_size(made) == 2, "the two others go on");
            expect(work_until_lost(made, rank, 3 - late, 5), "they work");
            done[job].meet(2);  // else the other one may still be at work
            if (are_killed) raise(SIGKILL);
            return;
        }
        expect(eventually([&] { return hkt_comm_status(comm.get()) != HKT_SUCCESS; }), "no failure comes");
        know[job].add();
        done[job].await(2);
        std::this_thread::sleep_for(std::chrono::milliseconds(300));  // until they have ended
        hkt_comm* made = nullptr;
        const hkt_status status = hkt_comm_shrink(comm.get(), &made);
        const Comm left(made);
        expect(status == HKT_ERROR_BOOTSTRAP, std::string("a second job: ") + hkt_error_string(status));
        const std::string text = hkt_comm_last_error(comm.get());
        expect(text.find("perhaps they have gone on without it") != std::string::npos, text);
    });
    for (std::size_t process = 0; process < outcomes.size(); ++process) {
        const auto [late, are_killed] = cases[process / 3];
        const bool is_late = static_cast<int>(process % 3) == late;
        CAPTURE(process, late, are_killed);
        CHECK(outcomes[process].text == "");
        CHECK(outcomes[process].signal == (are_killed && !is_late ? SIGKILL : 0));
    }
}

TEST_CASE("a rank that takes its time goes on by itself where the other one has died first") {
    const Tally met;
    const auto outcomes = run_ranks({2, {{"HOCKET_TIMEOUT_MS", "3000"}}}, [&](int rank) {
        const Comm comm = join();
        must(comm.get(), hkt_barrier(comm.get()));
        met.meet(2);
        if (rank == 0) raise(SIGKILL);
        while (hkt_comm_status(comm.get()) == HKT_SUCCESS)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        std::this_thread::sleep_for(std::chrono::milliseconds(3100));  // longer than others wait for it
        const Comm left = shrunken(comm.get());
        expect(hkt_comm_size(left.get()) == 1, "one is left");
    });
    CHECK(outcomes[0].signal == SIGKILL);
    CHECK(outcomes[1].text == "");
}

TEST_CASE("a rank that dies after it was counted is missed at once") {
    for (auto way : ways) {
        way["HOCKET_TIMEOUT_MS"] = "600000";
        for (const int victim : {1, 2}) {
            const auto outcomes = run_ranks({4, way, 30}, [&](int rank) {
                const Comm comm = join();
                // The first rank that shrinks ends the operations that the others are still in.
                work_until_lost(comm.get(), rank, 6, 3);
                // It connects to rank 0, which counts it, and then to the rendezvous.
                if (rank == victim) expect(die_when_connecting(1), "the kernel takes a filter");
                const Comm left = shrunken(comm.get());
                expect(hkt_comm_size(left.get()) == 3, "the three that are left");
                expect(lost_of(comm.get()) == std::vector<std::int32_t>{victim}, "who is lost");
                expect(work_until_lost(left.get(), rank, 6 - victim, 3), "they work");
            });
            for (int rank = 0; rank < 4; ++rank) {
                const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
                INFO("rank " << rank << " " << outcome.text);
                CHECK(outcome.signal == (rank == victim ? SIGKILL : 0));
                CHECK((rank == victim || outcome.text.empty()));
            }
        }
    }
}

TEST_CASE("random ranks die at random times, also while the others shrink") {
    const char* const asked = std::getenv("HOCKET_SHRINK_ROUNDS");
    const int rounds = asked == nullptr ? in_long_form(12, 4) : std::atoi(asked);
    std::mt19937 random(20261123);
    // The longest time from a failed operation of a rank to its next right result.
    auto* const longest_ms = static_cast<std::atomic<int>*>(shared_memory(sizeof(std::atomic<int>)));
    for (int round = 0; round < rounds; ++round) {
        const int size = 3 + static_cast<int>(random() % 6);
        // When each rank dies: in which communicator, and how many microseconds after it began to shrink or
        // work.
        struct Death {
            int generation;
            bool while_shrinking;
            unsigned after_us;
        };
        std::vector<std::optional<Death>> deaths(static_cast<std::size_t>(size));
        for (int victims = 1 + static_cast<int>(random() % 3); victims-- > 0;)
            deaths[random() % deaths.size()] = {static_cast<int>(random() % 2), random() % 2 == 0,
                                                static_cast<unsigned>(random() % 20000)};
        if (std::all_of(deaths.begin(), deaths.end(), [](const auto& death) { return death.has_value(); }))
            deaths[0].reset();
        // In each generation with deaths one rank must die at work, so that the others shrink.
        for (int generation = 0; generation < 2; ++generation) {
            Death* first = nullptr;
            for (auto& death : deaths)
                if (death && death->generation == generation && !first) first = &*death;
            if (first) first->while_shrinking = false;
            if (!first && generation == 0)
                for (auto& death : deaths)
                    if (death) death->generation = 0;
            if (!first && generation == 0) --generation;  // now there is one
        }
        const auto& way = ways[random() % 2];
        // A communicator's members are those that its first operation names.
        const auto outcomes = run_ranks({size, way}, [&](int rank) {
            const auto& death = deaths[static_cast<std::size_t>(rank)];
            const auto die_later = [&](int generation, bool while_shrinking) {
                if (!death || death->generation != generation || death->while_shrinking != while_shrinking)
                    return;
                std::thread([us = death->after_us] {
                    std::this_thread::sleep_for(std::chrono::microseconds(us));
                    raise(SIGKILL);
                }).detach();
            };
            Comm comm = join();
            hkt_barrier(comm.get());  // all have one; somebody may have died since
            std::vector<std::int32_t> members(static_cast<std::size_t>(size));
            std::optional<double> failed_at;
            for (int generation = 0;; ++generation) {
                die_later(generation, false);
                members.assign(static_cast<std::size_t>(hkt_comm_size(comm.get())), -1);
                const std::int32_t mine = rank;
                const hkt_status status =
                    hkt_all_gather(&mine, members.data(), 1, HKT_INT32, comm.get(), nullptr);
                if (status == HKT_SUCCESS) {
                    if (failed_at) {
                        const int took_ms = static_cast<int>(now_ms() - *std::exchange(failed_at, {}));
                        for (int most = *longest_ms; took_ms > most;)
                            longest_ms->compare_exchange_weak(most, took_ms);
                    }
                    std::int64_t sum = 0;
                    for (const std::int32_t member : members) sum += member;
                    const int all_to_die = static_cast<int>(std::count_if(
                        deaths.begin(), deaths.end(), [](const auto& each) { return each.has_value(); }));
                    // Once all that are to die are dead, the rest works on undisturbed.
                    const bool is_last = static_cast<int>(members.size()) == size - all_to_die;
                    if (work_until_lost(comm.get(), rank, sum, is_last ? 50 : 1000000) && is_last) break;
                }
                if (!failed_at) failed_at = now_ms();
                die_later(generation, true);
                Comm next = shrunken(comm.get());
                expect(hkt_comm_size(next.get()) <= hkt_comm_size(comm.get()), "a communicator shrinks");
                comm = std::move(next);
                // A death that was planned for a generation that does not come.
                if (death && generation > 2) raise(SIGKILL);
            }
        });
        for (int rank = 0; rank < size; ++rank) {
            INFO("round " << round << ", rank " << rank << " of " << size);
            const auto& outcome = outcomes[static_cast<std::size_t>(rank)];
            CHECK(outcome.signal == (deaths[static_cast<std::size_t>(rank)] ? SIGKILL : 0));
            CHECK(outcome.text == "");
        }
    }
    if (asked != nullptr)
        WARN("from a failed operation to the next right result: " << *longest_ms << " ms at most");
}
