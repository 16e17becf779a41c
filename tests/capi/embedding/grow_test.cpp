// New processes join ranks that are at work: more of them, or in the place of some that were lost.
#include <hocket.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/embedding/ways.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/restrictions.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

using Environment = std::map<std::string, std::string>;
using namespace std::chrono_literals;

// Ids that one process makes and others wait for, in memory that all share.
class Ids {
  public:
    explicit Ids(std::size_t count)
        : ids_(static_cast<hkt_unique_id*>(shared_memory(count * sizeof(hkt_unique_id)))),
          made_(static_cast<std::atomic<bool>*>(shared_memory(count * sizeof(std::atomic<bool>)))) {}

    const hkt_unique_id& make(std::size_t which) const {
        expect(hkt_unique_id_create(&ids_[which]) == HKT_SUCCESS, hkt_last_error());
        made_[which] = true;
        return ids_[which];
    }
    const hkt_unique_id& await(std::size_t which) const {
        while (!made_[which]) std::this_thread::sleep_for(1ms);
        return ids_[which];
    }
    const hkt_unique_id& at(std::size_t which) const { return ids_[which]; }

  private:
    hkt_unique_id* const ids_;
    std::atomic<bool>* const made_;
};

// One of the first `size` ranks, or a process that joins later; `timeout_ms` 0: the usual one.
hkt_comm_options options_of(int rank, int size, const hkt_unique_id& id, std::int64_t timeout_ms = 0) {
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.rank = rank;
    options.world_size = rank == HKT_NEWCOMER ? 0 : size;
    options.unique_id = &id;
    options.timeout_ms = timeout_ms;
    return options;
}

Comm joined(const hkt_comm_options& options) {
    return join(&options);
}

Comm newcomer(const hkt_unique_id& id) {
    return joined(options_of(HKT_NEWCOMER, 0, id));
}

hkt_status grow(hkt_comm* comm, int newcomers, const hkt_unique_id* id, Comm& grown) {
    hkt_comm* made = nullptr;
    const hkt_status status = hkt_comm_grow(comm, newcomers, id, &made);
    grown.reset(made);
    return status;
}

Comm grown(hkt_comm* comm, int newcomers, const hkt_unique_id* id) {
    Comm made;
    must(comm, grow(comm, newcomers, id, made));
    return made;
}

// Each rank gives its number in a small and in a large all_reduce. False: a rank was lost.
[[nodiscard]] bool work(hkt_comm* comm, int rounds = 3) {
    const std::int64_t size = hkt_comm_size(comm), sum = size * (size - 1) / 2;
    for (const std::size_t count : {std::size_t{3}, std::size_t{100'000}})
        for (int round = 0; round < rounds; ++round) {
            std::vector<std::int64_t> data(count, hkt_comm_rank(comm));
            const hkt_status status =
                hkt_all_reduce(data.data(), data.data(), count, HKT_INT64, HKT_SUM, comm, nullptr);
            if (status == HKT_ERROR_PEER_LOST || status == HKT_ERROR_ABORTED) return false;
            must(comm, status);
            expect(std::all_of(data.begin(), data.end(), [&](std::int64_t value) { return value == sum; }),
                   "a sum is wrong: " + std::to_string(data[0]) + ", not " + std::to_string(sum));
        }
    return true;
}

// All of them, until rank 0 sees the flag.
void work_until(hkt_comm* comm, const std::atomic<bool>& flag) {
    for (std::int32_t is_over = 0;;) {
        is_over = flag ? 1 : 0;
        must(comm, hkt_broadcast(&is_over, &is_over, 1, HKT_INT32, 0, comm, nullptr));
        if (is_over) return;
        expect(work(comm, 1), "nobody is lost any more");
        std::this_thread::sleep_for(2ms);  // the flag may take seconds
    }
}

struct Continues {
    const std::atomic<int>& pid;
    ~Continues() { kill(pid, SIGCONT); }
};

void expect_text(const std::string& text, const std::string& words) {
    expect(text.find(words) != std::string::npos, "instead of \"" + words + "\": " + text);
}

}  // namespace

TEST_CASE("new processes join ranks that work, and get the numbers after theirs") {
    for (Environment way : ways) {
        way["HOCKET_TOPOLOGY"] = "2";  // as the first two are
        const Ids ids(3);
        const auto outcomes = run_ranks({6, way}, [&](int rank) {
            Comm comm;
            if (rank < 2) {
                comm = joined(options_of(rank, 2, rank == 0 ? ids.make(0) : ids.await(0)));
                expect(work(comm.get()), "all of them work");
            }
            for (std::size_t round = 1; round < 3; ++round) {
                const int there = static_cast<int>(2 * round);
                if (rank >= there + 2) continue;
                if (rank >= there) {
                    comm = newcomer(ids.await(round));
                    expect(hkt_comm_rank(comm.get()) >= there, "a new process has a number of its own");
                } else {
                    Comm larger = grown(comm.get(), 2, rank == 0 ? &ids.make(round) : nullptr);
                    expect(hkt_comm_rank(larger.get()) == hkt_comm_rank(comm.get()), "numbers stay");
                    expect(work(comm.get()), "all of them work");
                    comm = std::move(larger);
                }
                expect(hkt_comm_size(comm.get()) == there + 2, "all are in");
                expect(work(comm.get()), "all of them work");
            }
        });
        CHECK(problems(outcomes) == "");
    }
}

// As a job would do it: rank 0 leaves the door open, and looks at each step whether somebody waits.
TEST_CASE("whoever is lost is replaced by a new process, again and again") {
    const char* const asked = std::getenv("HOCKET_SHRINK_ROUNDS");
    const int rounds = asked == nullptr ? in_long_form(4, 2) : std::atoi(asked);
    constexpr int size = 3;
    std::mt19937 random(20261124);
    for (const auto& way : ways) {
        const Ids ids(static_cast<std::size_t>(rounds) + 1);
        std::vector<int> victims;
        for (int round = 0; round < rounds; ++round) victims.push_back(static_cast<int>(random() % size));
        auto* const deaths = static_cast<std::atomic<int>*>(shared_memory(sizeof(std::atomic<int>)));
        const Tally worked;
        const auto outcomes = run_ranks({size + rounds, way, 300}, [&](int rank) {
            Comm comm;
            int round = 0;
            if (rank < size) {
                comm = joined(options_of(rank, size, rank == 0 ? ids.make(0) : ids.await(0)));
            } else {
                round = rank - size + 1;
                comm = newcomer(ids.await(static_cast<std::size_t>(round)));
            }
            for (; round < rounds; ++round) {
                expect(work(comm.get()), "nobody dies before his time");
                expect(hkt_comm_size(comm.get()) == size, "all are here");
                // A rank that has ended an operation may be ahead of the others.
                worked.meet(size * (round + 1));
                if (hkt_comm_rank(comm.get()) == victims[static_cast<std::size_t>(round)]) {
                    ++*deaths;
                    raise(SIGKILL);
                }
                while (work(comm.get(), 1)) continue;
                hkt_comm* left = nullptr;
                must(comm.get(), hkt_comm_shrink(comm.get(), &left));
                comm.reset(left);
                const auto door = static_cast<std::size_t>(round) + 1;
                if (hkt_comm_rank(left) == 0) ids.make(door);
                Comm larger;
                while (!larger) {  // steps, until somebody waits
                    expect(work(left, 1), "those that are left work meanwhile");
                    larger = grown(left, HKT_ALL_WAITING, &ids.at(door));
                }
                comm = std::move(larger);
            }
            expect(work(comm.get()), "they work to the end");
        });
        int killed = 0;
        for (const Outcome& outcome : outcomes) {
            CHECK(outcome.text == "");
            killed += outcome.signal == SIGKILL ? 1 : 0;
        }
        CHECK(*deaths == rounds);
        CHECK(killed == rounds);
    }
}

TEST_CASE("a rank that was given up and runs again disturbs nobody of the new communicator") {
    for (const Environment& way : {Environment{}, Environment{{"HOCKET_PROVIDER_FOR_ALL", "tcp"}}}) {
        const Ids ids(2);
        auto* const pid = static_cast<std::atomic<int>*>(shared_memory(sizeof(std::atomic<int>)));
        auto* const has_heard = static_cast<std::atomic<bool>*>(shared_memory(sizeof(std::atomic<bool>)));
        Environment environment = way;
        environment["HOCKET_HEARTBEAT_TIMEOUT_MS"] = "3000";
        const auto outcomes = run_ranks({4, environment}, [&](int rank) {
            // Rank 2 shrinks until its deadline.
            setenv("HOCKET_TIMEOUT_MS", rank == 2 ? "4000" : "20000", 1);
            if (rank == 3) {
                const Comm comm = newcomer(ids.await(1));
                expect(work(comm.get()), "they work");
                work_until(comm.get(), *has_heard);
                return;
            }
            Comm comm = joined(options_of(rank, 3, rank == 0 ? ids.make(0) : ids.await(0)));
            expect(work(comm.get()), "all of them work");
            if (rank == 2) {
                // It stops in the middle of an operation, and goes on with it later.
                *pid = getpid();
                std::thread([] {
                    std::this_thread::sleep_for(20ms);
                    raise(SIGSTOP);
                }).detach();
                while (work(comm.get(), 1)) continue;
                std::vector<std::int64_t> data(100'000, 77);
                expect(hkt_all_reduce(data.data(), data.data(), data.size(), HKT_INT64, HKT_SUM, comm.get(),
                                      nullptr) < 0,
                       "it goes on by itself");
                // The others have destroyed the communicator that they shared with it. It must not conclude
                // that it is the only one left.
                hkt_comm* none = nullptr;
                expect(hkt_comm_shrink(comm.get(), &none) < 0 && none == nullptr,
                       "it makes a job of its own");
                *has_heard = true;
                return;
            }
            const Continues at_the_end{*pid};  // in any case: a stopped process cannot end
            while (work(comm.get(), 1)) continue;
            hkt_comm* left = nullptr;
            must(comm.get(), hkt_comm_shrink(comm.get(), &left));
            Comm larger = grown(left, 1, rank == 0 ? &ids.make(1) : nullptr);
            hkt_comm_destroy(left);
            expect(work(larger.get()), "they work");
            if (rank == 0) kill(*pid, SIGCONT);
            work_until(larger.get(), *has_heard);
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a communicator that cannot grow stays as it is, and all its ranks hear why") {
    const Ids ids(3);
    const auto outcomes = run_ranks({4}, [&](int rank) {
        if (rank == 3) {
            // It comes a second time, when the id is used up.
            const Comm comm = newcomer(ids.await(2));
            hkt_comm* none = nullptr;
            auto options = options_of(HKT_NEWCOMER, 0, ids.await(2), 2'000);
            expect(hkt_comm_create(&options, &none) == HKT_ERROR_BOOTSTRAP && none == nullptr,
                   hkt_last_error());
            expect(work(comm.get()), "all of them work");
            return;
        }
        Comm comm = joined(options_of(rank, 3, rank == 0 ? ids.make(0) : ids.await(0), 3'500)), larger;
        const auto text_of = [&](int newcomers, const hkt_unique_id* id, hkt_status status) {
            const std::string text = failure_of(comm.get(), grow(comm.get(), newcomers, id, larger), status);
            expect(larger == nullptr, "nothing is made");
            expect(work(comm.get()), "all of them work");
            return text;
        };
        expect_text(text_of(-1, nullptr, HKT_ERROR_INVALID_ARGUMENT), "newcomers is -1; it must be 1 to");
        failure_of(comm.get(), hkt_comm_grow(comm.get(), 1, nullptr, nullptr), HKT_ERROR_INVALID_ARGUMENT);
        expect_text(text_of(INT32_MAX - 2, nullptr, HKT_ERROR_INVALID_ARGUMENT), "newcomers is");
        expect_text(text_of(rank == 2 ? 2 : 1, nullptr, HKT_ERROR_MISMATCH), "hkt_comm_grow by 2");
        expect_text(text_of(1, nullptr, HKT_ERROR_INVALID_ARGUMENT),
                    "rank 0 cannot lead the new communicator: this is not a unique id");
        // The one that the communicator was made of.
        expect_text(text_of(1, &ids.at(0), HKT_ERROR_INVALID_ARGUMENT), "or has been used");
        const std::string nobody = text_of(2, rank == 0 ? &ids.make(1) : nullptr, HKT_ERROR_TIMEOUT);
        expect_text(nobody, "ranks 3 and 4 did not");
        expect_text(nobody, "within 3.5 s");  // the communicator's deadline
        if (rank == 0) expect_text(nobody, "new processes get the ranks from 3 on: were 2 started");
        expect_text(text_of(1, &ids.at(1), HKT_ERROR_INVALID_ARGUMENT), "or has been used");
        larger = grown(comm.get(), 1, rank == 0 ? &ids.make(2) : nullptr);
        expect(work(larger.get()), "all of them work");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a new process hears why it is not taken in") {
    const Ids ids(3);
    auto* const done = static_cast<std::atomic<int>*>(shared_memory(sizeof(std::atomic<int>)));
    const auto outcomes = run_ranks({3}, [&](int rank) {
        const auto refused = [&](hkt_comm_options options, hkt_status status, const std::string& words) {
            hkt_comm* comm = nullptr;
            expect(hkt_comm_create(&options, &comm) == status && comm == nullptr, hkt_last_error());
            expect_text(hkt_last_error(), words);
        };
        if (rank < 2) {
            if (rank == 0) ids.make(1);  // no communicator will grow there
            const Comm comm = joined(options_of(rank, 2, rank == 0 ? ids.make(0) : ids.await(0), 20'000));
            for (std::int32_t count = 0; *done < 2; std::this_thread::sleep_for(1ms))
                if (*done == 1 && rank == 0)
                    expect(hkt_unique_id_waiting(&ids.at(1), &count) == HKT_SUCCESS, hkt_last_error());
            // Its ranks are all known, and one of them comes late: so somebody new finds rank 0 there.
            if (rank == 1)
                while (*done < 3) std::this_thread::sleep_for(1ms);
            const Comm other = joined(options_of(rank, 2, rank == 0 ? ids.make(2) : ids.await(2), 20'000));
            return;
        }
        auto without = options_of(HKT_NEWCOMER, 0, ids.await(1));
        without.unique_id = nullptr;
        refused(without, HKT_ERROR_INVALID_ARGUMENT,
                "then unique_id says where rank 0 takes this process in");
        auto sized = options_of(HKT_NEWCOMER, 0, ids.await(1));
        sized.world_size = 3;
        refused(sized, HKT_ERROR_INVALID_ARGUMENT, "and world_size 0");
        for (int looked_at = 0; looked_at < 2; ++looked_at) {
            *done = looked_at;
            refused(options_of(HKT_NEWCOMER, 0, ids.await(1), 700), HKT_ERROR_TIMEOUT,
                    "do the ranks that are there call hkt_comm_grow, ");
        }
        *done = 2;
        refused(options_of(HKT_NEWCOMER, 0, ids.await(2), 5'000), HKT_ERROR_BOOTSTRAP,
                "this communicator takes no new processes");
        *done = 3;
        // No rank will listen there any more. Its deadline is later than the test's.
        refused(options_of(HKT_NEWCOMER, 0, ids.at(0), 600'000), HKT_ERROR_BOOTSTRAP,
                "was its id used for others already");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("rank 0 knows how many wait, and does not count those that have gone") {
    const Ids ids(1);
    auto* const killed = static_cast<std::atomic<int>*>(shared_memory(sizeof(std::atomic<int>)));
    const auto outcomes = run_ranks({3}, [&](int rank) {
        if (rank == 1) {
            std::thread([&] {
                while (!*killed) std::this_thread::sleep_for(1ms);
                raise(SIGKILL);
            }).detach();
        }
        if (rank > 0) {
            const Comm comm = newcomer(ids.await(0));
            expect(work(comm.get()), "all of them work");
            return;
        }
        const hkt_unique_id id = ids.make(0);
        const auto await_waiting = [&](std::int32_t right) {
            std::int32_t count = -1;
            while (count != right) {
                expect(hkt_unique_id_waiting(&id, &count) == HKT_SUCCESS, hkt_last_error());
                std::this_thread::sleep_for(1ms);
            }
        };
        await_waiting(2);
        *killed = 1;
        await_waiting(1);
        const Comm own = alone();
        const Comm both = grown(own.get(), 1, &id);
        expect(hkt_comm_size(both.get()) == 2, "the one that is left");
        expect(work(both.get()), "all of them work");
        std::int32_t count = 0;
        expect(hkt_unique_id_waiting(&id, &count) == HKT_ERROR_INVALID_ARGUMENT, "an id that is used up");
        expect_text(hkt_last_error(), "has been used");
        expect(hkt_unique_id_waiting(nullptr, &count) == HKT_ERROR_INVALID_ARGUMENT, "no id");
        expect(hkt_unique_id_waiting(&id, nullptr) == HKT_ERROR_INVALID_ARGUMENT, "no count");
    });
    for (int rank = 0; rank < 3; ++rank) {
        INFO("rank " << rank << " " << outcomes[static_cast<std::size_t>(rank)].text);
        CHECK(outcomes[static_cast<std::size_t>(rank)].signal == (rank == 1 ? SIGKILL : 0));
        CHECK(outcomes[static_cast<std::size_t>(rank)].text == "");
    }
}

TEST_CASE("who comes to the door is taken in however seldom rank 0 looks, and nobody else is counted") {
    const Ids ids(1);
    auto* const refused = static_cast<std::atomic<int>*>(shared_memory(sizeof(std::atomic<int>)));
    const auto outcomes = run_ranks({4}, [&](int rank) {
        if (rank == 3) {  // it has the secret, but comes as a rank that it thinks it knows
            hkt_comm* none = nullptr;
            auto options = options_of(1, 2, ids.await(0), 30'000);
            expect(hkt_comm_create(&options, &none) == HKT_ERROR_BOOTSTRAP, hkt_last_error());
            ++*refused;
            return;
        }
        if (rank > 0) {  // two, where one has a place
            hkt_comm* made = nullptr;
            auto options = options_of(HKT_NEWCOMER, 0, ids.await(0), 30'000);
            if (hkt_comm_create(&options, &made) != HKT_SUCCESS) {
                expect_text(hkt_last_error(), "others came first");
                ++*refused;
                return;
            }
            const Comm comm(made);
            expect(work(comm.get()), "they work");
            return;
        }
        const hkt_unique_id id = ids.make(0);
        std::int32_t count = -1;
        for (int look = 0; look < 3; ++look) {  // longer apart than a handshake may take
            std::this_thread::sleep_for(look == 0 ? 200ms : 5200ms);
            expect(hkt_unique_id_waiting(&id, &count) == HKT_SUCCESS, hkt_last_error());
        }
        expect(count == 2, "2 new processes wait, not " + std::to_string(count));
        const Comm own = alone();
        const Comm both = grown(own.get(), 1, &id);
        expect(work(both.get()), "they work");
    });
    CHECK(problems(outcomes) == "");
    CHECK(*refused == 2);
}

TEST_CASE("all ranks grow or none does, also if a new process fails when it is nearly in") {
    for (const auto& way : ways) {
        const Ids ids(3);
        const auto outcomes = run_ranks({4, way}, [&](int rank) {
            if (rank == 3) {
                setenv("HOCKET_TRACE", "/proc/nowhere", 1);
                hkt_comm* none = nullptr;
                auto options = options_of(HKT_NEWCOMER, 0, ids.await(1));
                expect(hkt_comm_create(&options, &none) < 0 && none == nullptr, "it has no trace");
                unsetenv("HOCKET_TRACE");
                const Comm comm = newcomer(ids.await(2));
                expect(work(comm.get()), "they work");
                return;
            }
            const Comm comm = joined(options_of(rank, 3, rank == 0 ? ids.make(0) : ids.await(0)));
            Comm larger;
            const hkt_status status = grow(comm.get(), 1, rank == 0 ? &ids.make(1) : nullptr, larger);
            expect(status < 0 && larger == nullptr, "a communicator of which a part is missing");
            expect(work(comm.get()), "the ranks that were there go on");
            larger = grown(comm.get(), 1, rank == 0 ? &ids.make(2) : nullptr);
            expect(work(larger.get()), "they work");
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a child that is forked beside a look at the door makes ids of its own") {
#ifdef __SANITIZE_ADDRESS__
    HOCKET_SKIP("the sanitizer's allocator may be locked in a child: the other thread is in it");
#endif
    const Ids ids(1);
    const auto outcomes = run_ranks({1}, [&](int) {
        const hkt_unique_id id = ids.make(0);
        std::atomic<bool> is_over = false;
        std::thread looks([&] {
            for (std::int32_t count = 0; !is_over;) hkt_unique_id_waiting(&id, &count);
        });
        std::string wrong;
        for (int i = 0; i < 30; ++i) {
            const pid_t child = fork();
            if (child == 0) {
                alarm(60);
                hkt_unique_id own;
                std::int32_t count = 0;
                if (hkt_unique_id_create(&own) != HKT_SUCCESS) _exit(1);
                if (hkt_unique_id_waiting(&own, &count) != HKT_SUCCESS) _exit(2);
                if (count != 0) _exit(3);
                _exit(hkt_unique_id_waiting(&id, &count) == HKT_ERROR_INVALID_ARGUMENT ? 0 : 4);
            }
            int status = -1;
            waitpid(child, &status, 0);
            if (WIFSIGNALED(status))
                wrong += " signal " + std::to_string(WTERMSIG(status));
            else if (status != 0)
                wrong += " failed at " + std::to_string(WEXITSTATUS(status));
        }
        is_over = true;
        looks.join();
        expect(wrong.empty(), "children ended with:" + wrong);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("those that wait are taken in, however many they are") {
    const Ids ids(2);
    auto* const has_asked = static_cast<std::atomic<bool>*>(shared_memory(sizeof(std::atomic<bool>)));
    const auto outcomes = run_ranks({5}, [&](int rank) {
        if (rank >= 2) {
            ids.await(1);
            while (!*has_asked) std::this_thread::sleep_for(1ms);
            const Comm comm = newcomer(ids.at(1));
            expect(hkt_comm_size(comm.get()) == 5, "all three have come together");
            expect(work(comm.get()), "they work");
            return;
        }
        const Comm comm = joined(options_of(rank, 2, rank == 0 ? ids.make(0) : ids.await(0)));
        const hkt_unique_id* const id = rank == 0 ? &ids.make(1) : nullptr;
        expect(grown(comm.get(), HKT_ALL_WAITING, id) == nullptr, "nobody waits");
        *has_asked = true;
        if (rank == 0)
            for (std::int32_t waiting = 0; waiting < 3; std::this_thread::sleep_for(1ms))
                must(comm.get(), hkt_unique_id_waiting(id, &waiting));
        const Comm larger = grown(comm.get(), HKT_ALL_WAITING, id);
        expect(larger != nullptr && work(larger.get()), "three wait");
        Comm none;
        const std::string text =
            failure_of(comm.get(), grow(comm.get(), HKT_ALL_WAITING, id, none), HKT_ERROR_INVALID_ARGUMENT);
        expect_text(text, "or has been used");
    });
    CHECK(problems(outcomes) == "");
}

// At any moment of growing. No rank waits for a dead one: the ranks' deadline is later than the test's.
TEST_CASE("a rank that dies while its communicator grows is missed at once, and nobody goes on without it") {
    int number = 0;
    for (Environment way : ways) {
        way["HOCKET_TIMEOUT_MS"] = "600000";
        std::mt19937 random(20261125);
        for (int round = 0; round < 6; ++round) {
            const int victim = round % 3;
            const auto moment = std::chrono::microseconds(random() % (round < 3 ? 3'000 : 30'000));
            if (number++ % in_long_form(1, 2) != 0) continue;
            const Ids ids(2);
            auto* const have_it = static_cast<std::atomic<int>*>(shared_memory(sizeof(std::atomic<int>)));
            auto* const is_in = static_cast<std::atomic<int>*>(shared_memory(sizeof(std::atomic<int>)));
            const Tally worked;
            const auto outcomes = run_ranks({4, way, 30}, [&](int rank) {
                if (rank == 3) {
                    hkt_comm* made = nullptr;
                    auto options = options_of(HKT_NEWCOMER, 0, ids.await(1));
                    *is_in = hkt_comm_create(&options, &made) == HKT_SUCCESS ? 1 : 0;
                    const Comm comm(made);
                    while (comm && work(comm.get(), 1)) continue;  // until one of them dies
                    return;
                }
                const Comm comm = joined(options_of(rank, 3, rank == 0 ? ids.make(0) : ids.await(0)));
                expect(work(comm.get()), "all of them work");
                worked.meet(3);  // a rank that has ended an operation may be ahead of the others
                const hkt_unique_id* const id = rank == 0 ? &ids.make(1) : nullptr;
                if (rank == victim)
                    std::thread([&] {
                        std::this_thread::sleep_for(moment);
                        raise(SIGKILL);
                    }).detach();
                Comm larger;
                const hkt_status status = grow(comm.get(), 1, id, larger);
                if (status == HKT_SUCCESS) {
                    if (rank != victim) ++*have_it;
                    while (work(larger.get(), 1)) continue;
                } else {
                    expect(status == HKT_ERROR_PEER_LOST, hkt_comm_last_error(comm.get()));
                }
                if (rank == victim) pause();
            });
            for (int rank = 0; rank < 4; ++rank) {
                const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
                INFO("round " << round << ", " << moment.count() << " us, rank " << rank << " "
                              << outcome.text);
                CHECK(outcome.signal == (rank == victim ? SIGKILL : 0));
                CHECK(outcome.text == "");
            }
            INFO("round " << round << ": the new process is in: " << *is_in
                          << ", ranks that have it: " << *have_it);
            CHECK((*is_in == 0 || *have_it == 2));
            // Rank 0 tells the others one after another, and may die in between.
            CHECK((victim == 0 || *have_it != 1));
        }
    }
}

TEST_CASE("a rank that dies before it has come to its grown communicator is missed at once") {
    for (Environment way : ways) {
        way["HOCKET_TIMEOUT_MS"] = "600000";
        for (const int victim : {1, 2}) {
            const Ids ids(2);
            const auto outcomes = run_ranks({4, way, 30}, [&](int rank) {
                if (rank == 3) {
                    hkt_comm* made = nullptr;
                    auto options = options_of(HKT_NEWCOMER, 0, ids.await(1));
                    expect(hkt_comm_create(&options, &made) < 0, "nobody takes it in");
                    return;
                }
                const Comm comm = joined(options_of(rank, 3, rank == 0 ? ids.make(0) : ids.await(0)));
                expect(work(comm.get()), "all of them work");
                const hkt_unique_id* const id = rank == 0 ? &ids.make(1) : nullptr;
                if (rank == victim) expect(die_when_connecting(), "the kernel takes a filter");
                Comm larger;
                const hkt_status status = grow(comm.get(), 1, id, larger);
                expect(status == HKT_ERROR_PEER_LOST, hkt_comm_last_error(comm.get()));
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

TEST_CASE("who waited and has died meanwhile is not waited for, and the others are taken in") {
    const Ids ids(2);
    auto* const pid = static_cast<std::atomic<int>*>(shared_memory(sizeof(std::atomic<int>)));
    const auto outcomes = run_ranks({4}, [&](int rank) {
        if (rank >= 2) {
            if (rank == 2) *pid = getpid();
            const Comm comm = newcomer(ids.await(1));
            expect(work(comm.get()), "they work");
            return;
        }
        const Comm comm = joined(options_of(rank, 2, rank == 0 ? ids.make(0) : ids.await(0)));
        if (rank == 0) {
            const hkt_unique_id id = ids.make(1);
            const auto await_waiting = [&](std::int32_t right) {
                for (std::int32_t waiting = -1; waiting != right; std::this_thread::sleep_for(1ms))
                    must(comm.get(), hkt_unique_id_waiting(&id, &waiting));
            };
            await_waiting(2);
            kill(*pid, SIGKILL);
            await_waiting(1);
        }
        must(comm.get(), hkt_barrier(comm.get()));
        const Comm larger = grown(comm.get(), HKT_ALL_WAITING, rank == 0 ? &ids.at(1) : nullptr);
        expect(hkt_comm_size(larger.get()) == 3, "the one that is left");
        expect(work(larger.get()), "they work");
    });
    for (int rank = 0; rank < 4; ++rank) {
        INFO("rank " << rank << " " << outcomes[static_cast<std::size_t>(rank)].text);
        CHECK(outcomes[static_cast<std::size_t>(rank)].signal == (rank == 2 ? SIGKILL : 0));
        CHECK(outcomes[static_cast<std::size_t>(rank)].text == "");
    }
}

TEST_CASE("an id that is not going to be used can be destroyed, and those that wait hear of it") {
    const Ids ids(1);
    const auto outcomes = run_ranks({3}, [&](int rank) {
        if (rank > 0) {
            hkt_comm* none = nullptr;
            auto options = options_of(HKT_NEWCOMER, 0, ids.await(0));
            expect(hkt_comm_create(&options, &none) == HKT_ERROR_BOOTSTRAP && none == nullptr,
                   hkt_last_error());
            expect_text(hkt_last_error(), "its id was destroyed");
            return;
        }
        const hkt_unique_id id = ids.make(0);
        for (std::int32_t waiting = 0; waiting < 2; std::this_thread::sleep_for(1ms))
            expect(hkt_unique_id_waiting(&id, &waiting) == HKT_SUCCESS, hkt_last_error());
        expect(hkt_unique_id_destroy(&id) == HKT_SUCCESS, hkt_last_error());
        expect(hkt_unique_id_destroy(&id) == HKT_ERROR_INVALID_ARGUMENT, "it is destroyed already");
        expect_text(hkt_last_error(), "has been used or destroyed");
        expect(hkt_unique_id_destroy(nullptr) == HKT_ERROR_INVALID_ARGUMENT, "no id");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("who has an id and does not say which rank it is hears what is missing") {
    const Ids ids(1);
    const auto outcomes = run_ranks({1}, [&](int) {
        for (const char* name : {"RANK", "WORLD_SIZE"}) unsetenv(name);
        auto options = options_of(-1, 0, ids.make(0));
        hkt_comm* none = nullptr;
        expect(hkt_comm_create(&options, &none) == HKT_ERROR_INVALID_ARGUMENT && none == nullptr,
               hkt_last_error());
        expect_text(hkt_last_error(), "rank = HKT_NEWCOMER");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("growing that waits for new processes ends when it is aborted, and its id is closed") {
    const Ids ids(2);
    const Tally joined_all;
    const auto outcomes = run_ranks({4, {{"HOCKET_TIMEOUT_MS", "600000"}}}, [&](int rank) {
        if (rank == 3) {  // one of the two that are to come
            hkt_comm* none = nullptr;
            auto options = options_of(HKT_NEWCOMER, 0, ids.await(1));
            expect(hkt_comm_create(&options, &none) < 0 && none == nullptr, "nobody has grown");
            return;
        }
        const Comm comm = joined(options_of(rank, 3, rank == 0 ? ids.make(0) : ids.await(0)));
        joined_all.meet(3);  // a rank that still joins would fail to
        const hkt_unique_id* const id = rank == 0 ? &ids.make(1) : nullptr;
        std::thread aborts;
        if (rank == 1)
            aborts = std::thread([&] {
                std::this_thread::sleep_for(100ms);
                hkt_comm_abort(comm.get());
            });
        Comm larger;
        const hkt_status status = grow(comm.get(), 2, id, larger);
        if (aborts.joinable()) aborts.join();
        expect(status == HKT_ERROR_ABORTED, hkt_comm_last_error(comm.get()));
        std::int32_t waiting = 0;
        if (rank == 0)
            expect(hkt_unique_id_waiting(id, &waiting) == HKT_ERROR_INVALID_ARGUMENT, "the id is still open");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("whoever waits where ranks fail to grow does not wait any longer") {
    const Ids ids(2);
    const auto outcomes = run_ranks({3, {{"HOCKET_TIMEOUT_MS", "600000"}}}, [&](int rank) {
        if (rank == 2) {
            hkt_comm* none = nullptr;
            auto options = options_of(HKT_NEWCOMER, 0, ids.await(1));
            expect(hkt_comm_create(&options, &none) == HKT_ERROR_BOOTSTRAP && none == nullptr,
                   hkt_last_error());
            expect_text(hkt_last_error(), "look for another id");
            return;
        }
        const Comm comm = joined(options_of(rank, 2, rank == 0 ? ids.make(0) : ids.await(0)));
        const hkt_unique_id* const id = rank == 0 ? &ids.make(1) : nullptr;
        if (rank == 0)
            for (std::int32_t waiting = 0; waiting < 1; std::this_thread::sleep_for(1ms))
                must(comm.get(), hkt_unique_id_waiting(id, &waiting));
        Comm larger;
        expect(grow(comm.get(), rank == 0 ? HKT_ALL_WAITING : 2, id, larger) == HKT_ERROR_MISMATCH,
               hkt_comm_last_error(comm.get()));
        expect(work(comm.get()), "they work");
    });
    CHECK(problems(outcomes) == "");
}
