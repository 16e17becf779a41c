// Communicators of some ranks of another.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/embedding/ways.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/tally.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

Comm group_of(hkt_comm* comm, const std::vector<std::int32_t>& ranks) {
    hkt_comm* group = nullptr;
    must(comm, hkt_comm_create_group(comm, ranks.data(), ranks.size(), &group));
    return Comm(group);
}

// The numbers that the ranks of a communicator give, by rank.
std::vector<std::int32_t> gathered(hkt_comm* comm, std::int32_t mine) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(hkt_comm_size(comm)));
    must(comm, hkt_all_gather(&mine, all.data(), 1, HKT_INT32, comm, nullptr));
    return all;
}

// Large enough not to be done in one go.
void require_large_sum(hkt_comm* comm, std::int64_t mine, std::int64_t expected) {
    std::vector<std::int64_t> data(20000, mine);
    must(comm, hkt_all_reduce(data.data(), data.data(), data.size(), HKT_INT64, HKT_SUM, comm, nullptr));
    for (const std::int64_t value : data)
        expect(value == expected,
               "the sum is " + std::to_string(value) + ", not " + std::to_string(expected));
}

std::size_t entries_of(const char* folder) {
    std::size_t entries = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++entries;
    return entries;
}

}  // namespace

TEST_CASE("a communicator is split by color and key") {
    for (const auto& way : ways) {
        const auto outcomes = run_ranks({5, way}, [](int rank) {
            const Comm comm = join();
            const Comm same = split(comm.get(), rank % 2, 0);
            expect(gathered(same.get(), rank) ==
                       (rank % 2 == 0 ? std::vector<std::int32_t>{0, 2, 4} : std::vector<std::int32_t>{1, 3}),
                   "the ranks of a color");
            require_large_sum(same.get(), rank, rank % 2 == 0 ? 6 : 4);
            const Comm backwards = split(comm.get(), 7, -rank);
            expect(gathered(backwards.get(), rank) == std::vector<std::int32_t>{4, 3, 2, 1, 0},
                   "the keys' order");
            const Comm some = split(comm.get(), rank < 3 ? 1 : HKT_NO_COLOR, 0);
            expect((some != nullptr) == (rank < 3), "who has a group");
            if (some) require_large_sum(some.get(), rank, 3);
            const Comm own = split(comm.get(), rank, 0);
            expect(hkt_comm_size(own.get()) == 1, "a group of one");
            require_large_sum(own.get(), rank, rank);
            // Groups of a group, and the parent still works.
            const Comm inner = split(same.get(), 0, -hkt_comm_rank(same.get()));
            require_large_sum(inner.get(), rank, rank % 2 == 0 ? 6 : 4);
            require_large_sum(comm.get(), rank, 10);
        });
        CHECK(problems(outcomes) == "");
    }
}

TEST_CASE("a group is made from a list of ranks, and outlives its parent") {
    const auto outcomes = run_ranks({4}, [](int rank) {
        Comm comm = join();
        const Comm group = group_of(comm.get(), {3, 0, 2});
        expect((group != nullptr) == (rank != 1), "who is in the group");
        const Comm twin = group_of(comm.get(), {0, 1, 2, 3});
        expect(hkt_comm_rank(twin.get()) == rank, "a duplicate has the same ranks");
        const std::int32_t twice[] = {1, 1}, wrong[] = {0, 4};
        hkt_comm* none = nullptr;
        failure_of(comm.get(), hkt_comm_create_group(comm.get(), twice, 2, &none),
                   HKT_ERROR_INVALID_ARGUMENT);
        failure_of(comm.get(), hkt_comm_create_group(comm.get(), wrong, 2, &none),
                   HKT_ERROR_INVALID_ARGUMENT);
        failure_of(comm.get(), hkt_comm_create_group(comm.get(), nullptr, 0, &none),
                   HKT_ERROR_INVALID_ARGUMENT);
        failure_of(comm.get(), hkt_comm_split(comm.get(), -2, 0, &none), HKT_ERROR_INVALID_ARGUMENT);
        failure_of(comm.get(), hkt_comm_split(comm.get(), 0, 0, nullptr), HKT_ERROR_INVALID_ARGUMENT);
        comm.reset();
        if (group) {
            expect(gathered(group.get(), rank) == std::vector<std::int32_t>{3, 0, 2}, "the list's order");
            require_large_sum(group.get(), rank, 5);
        }
        require_large_sum(twin.get(), rank, 6);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("ranks that make different groups are told so, and go on") {
    const auto outcomes = run_ranks({3}, [](int rank) {
        const Comm comm = join();
        const std::vector<std::int32_t> list =
            rank == 2 ? std::vector<std::int32_t>{1, 0} : std::vector<std::int32_t>{0, 1};
        hkt_comm* group = nullptr;
        const std::string text = failure_of(
            comm.get(), hkt_comm_create_group(comm.get(), list.data(), 2, &group), HKT_ERROR_MISMATCH);
        expect(text.find("hkt_comm_create_group of ranks 0, 1") != std::string::npos &&
                   text.find("hkt_comm_create_group of ranks 1, 0") != std::string::npos,
               text);
        const hkt_status status = rank == 1 ? hkt_comm_split(comm.get(), 0, 0, &group)
                                            : hkt_comm_create_group(comm.get(), list.data(), 2, &group);
        failure_of(comm.get(), status, HKT_ERROR_MISMATCH);
        require_large_sum(comm.get(), rank, 3);
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a rank that does not join in when others split breaks the communicator for all") {
    const auto outcomes = run_ranks({3, {{"HOCKET_TIMEOUT_MS", "3000"}}}, [](int rank) {
        const Comm comm = join();
        hkt_comm* group = nullptr;
        const hkt_status status =
            rank == 1 ? hkt_barrier(comm.get()) : hkt_comm_split(comm.get(), 0, 0, &group);
        expect(status < 0, "this cannot go well");
        for (int call = 0; call < 2; ++call) expect(hkt_barrier(comm.get()) < 0, "nor anything after it");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("a rank's death breaks the groups that it is in, and no others") {
    const Tally worked;
    const auto outcomes = run_ranks({4}, [&](int rank) {
        const Comm comm = join();
        const Comm half = split(comm.get(), rank / 2, 0);
        require_large_sum(half.get(), rank, rank < 2 ? 1 : 5);
        worked.meet(4);
        if (rank == 3) raise(SIGKILL);
        std::int32_t one = 1, sum = 0;
        hkt_status status = HKT_SUCCESS;
        while (status == HKT_SUCCESS)
            status = hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, comm.get(), nullptr);
        expect(status == HKT_ERROR_PEER_LOST, "the parent");
        if (rank == 2)
            failure_of(half.get(), hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, half.get(), nullptr),
                       HKT_ERROR_PEER_LOST);
        else
            require_large_sum(half.get(), rank, 1);
    });
    CHECK(outcomes[3].signal == SIGKILL);
    for (int rank = 0; rank < 3; ++rank) CHECK(outcomes[static_cast<std::size_t>(rank)].text == "");
}

TEST_CASE("many groups have operations in flight at once") {
    const auto outcomes = run_ranks({4}, [](int rank) {
        constexpr std::size_t groups = 64, count = 3000;
        const Comm comm = join();
        std::vector<Comm> all;
        for (std::size_t i = 0; i < groups; ++i)
            all.push_back(split(comm.get(), 0, rank * static_cast<int>(1 + i % 2)));
        std::vector<std::vector<std::int32_t>> data(groups);
        std::vector<hkt_request*> requests(groups);
        for (std::size_t i = 0; i < groups; ++i) {
            data[i].assign(count, rank + static_cast<std::int32_t>(i));
            must(all[i].get(), hkt_all_reduce(data[i].data(), data[i].data(), count, HKT_INT32, HKT_SUM,
                                              all[i].get(), &requests[i]));
        }
        for (std::size_t i = groups; i-- > 0;) must(all[i].get(), hkt_wait(requests[i]));
        for (std::size_t i = 0; i < groups; ++i)
            for (const std::int32_t value : data[i])
                expect(value == 6 + 4 * static_cast<std::int32_t>(i),
                       "the sum in group " + std::to_string(i));
        // Threads work on groups of their own.
        std::vector<std::thread> threads;
        std::atomic<int> wrong{0};
        for (std::size_t t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                for (int i = 0; i < 50; ++i) {
                    std::int32_t one = 1, sum = 0;
                    if (hkt_all_reduce(&one, &sum, 1, HKT_INT32, HKT_SUM, all[t].get(), nullptr) !=
                            HKT_SUCCESS ||
                        sum != 4)
                        ++wrong;
                }
            });
        for (std::thread& thread : threads) thread.join();
        expect(wrong == 0, "sums of threads");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("groups leave nothing behind") {
    const auto outcomes = run_ranks({3}, [](int rank) {
        const Comm comm = join();
        std::size_t descriptors = 0, threads = 0;
        for (int round = 0; round < 40; ++round) {
            const Comm group = split(comm.get(), round % 3 == 0 ? rank % 2 : 0, rank);
            require_large_sum(group.get(), 1, hkt_comm_size(group.get()));
            if (round != 4) continue;  // of all ranks, as the last
            descriptors = entries_of("/proc/self/fd");
            threads = entries_of("/proc/self/task");
        }
        const Comm group = split(comm.get(), 0, rank);
        expect(entries_of("/proc/self/fd") == descriptors, "descriptors");
        // Each of the two that are left has one more thread once others have waited for this rank for long
        // and asked why. A thread that was joined is still listed for a moment.
        expect(eventually([&] { return entries_of("/proc/self/task") <= threads + 2; }), "threads");
    });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("groups know the schedules that their parent has read") {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/mine.sched";
    std::ofstream(file) << R"(
        algorithm mine all_reduce(x) over g {
            each r in g, q in g where q != r
                x : r +> q
        }
        schedule mine all_reduce(x) {
            all_reduce x over world using mine
        })";
    const auto outcomes =
        run_ranks({3, {{"HOCKET_SCHEDULE_PATH", folder.path()}, {"HOCKET_SCHEDULE", "mine"}}}, [&](int rank) {
            const Comm comm = join();
            require_large_sum(comm.get(), rank, 3);
            must(comm.get(), hkt_barrier(comm.get()));
            if (rank == 0) std::filesystem::remove(file);
            must(comm.get(), hkt_barrier(comm.get()));
            const Comm same = split(comm.get(), 0, rank);
            require_large_sum(same.get(), rank, 3);
            const Comm smaller = split(comm.get(), rank / 2, rank);
            require_large_sum(smaller.get(), 1, hkt_comm_size(smaller.get()));
            hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
            options.world_size = 1;
            options.rank = 0;
            hkt_comm* stranger = nullptr;
            expect(hkt_comm_create(&options, &stranger) == HKT_ERROR_NOT_FOUND, "no world without the file");
            const std::string text = hkt_last_error();
            expect(text.find("no schedule 'mine'") != std::string::npos, text);
        });
    CHECK(problems(outcomes) == "");
}

TEST_CASE("ranks that wait in a circle over several groups are told so, and what to do") {
    constexpr std::size_t large = 1 << 20;
    const Tally named;  // texts that name the other communicator
    const auto body = [&named](bool must_end_well) {
        return [must_end_well, &named](int rank) {
            const Comm comm = join();
            std::vector<Comm> groups;  // of each rank and the next one
            for (std::int32_t first = 0; first < 3; ++first) {
                const std::int32_t pair[] = {first, (first + 1) % 3};
                hkt_comm* group = nullptr;
                must(comm.get(), hkt_comm_create_group(comm.get(), pair, 2, &group));
                groups.emplace_back(group);
            }
            std::vector<float> x(large, 1), y(large, 1);
            const auto start = [](hkt_comm* group, std::vector<float>& data) {
                hkt_request* request = nullptr;
                must(group,
                     hkt_all_reduce(data.data(), data.data(), large, HKT_FLOAT32, HKT_SUM, group, &request));
                return request;
            };
            hkt_comm* const own = groups[static_cast<std::size_t>(rank)].get();
            hkt_comm* const other = groups[static_cast<std::size_t>((rank + 2) % 3)].get();
            hkt_request *const first = start(own, x), *const second = start(other, y);
            must(comm.get(), hkt_barrier(comm.get()));
            const hkt_status status = hkt_wait(first);
            const std::string text = hkt_comm_last_error(own);
            const hkt_status other_status = hkt_wait(second);
            if (must_end_well) {
                must(own, status), must(other, other_status);
                return expect(x[large - 1] == 2 && y[0] == 2, "both sums");
            }
            // The rank that gives up first goes on to the other group, and moves the operation that its local
            // peer waits for.
            if (status == HKT_SUCCESS) return;
            expect(status == HKT_ERROR_TIMEOUT, text);
            for (const char* part :
                 {"no thread of it is in a call of this communicator", "HOCKET_PROGRESS=thread"})
                expect(text.find(part) != std::string::npos, text);
            if (text.find("it waits in all_reduce #0 (") != std::string::npos) named.add();
        };
    };
    for (const char* provider : {"", "tcp"}) {
        INFO(provider);
        std::map<std::string, std::string> environment{{"HOCKET_PROVIDER_FOR_ALL", provider},
                                                       {"HOCKET_TIMEOUT_MS", "2500"}};
        const int before = named.value();
        // A rank is asked once where it waits, and may be on its way there.
        for (int attempt = 0; attempt < 6 && named.value() == before; ++attempt)
            CHECK(problems(run_ranks({3, environment}, body(false))) == "");
        CHECK(named.value() > before);
        environment["HOCKET_PROGRESS"] = "thread", environment["HOCKET_TIMEOUT_MS"] = "30000";
        CHECK(problems(run_ranks({3, environment}, body(true))) == "");
    }
}
