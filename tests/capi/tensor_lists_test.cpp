// Starts of plans whose buffers are lists of tensors that lie anywhere, as a framework has its parameters.
#include <hocket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/comm.hpp"
#include "tests/capi/computing.hpp"
#include "tests/capi/plan.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;

namespace {

using Counts = std::vector<std::size_t>;

// One without elements, one that is larger than a tile, and sizes that no rank's part is a multiple of.
const Counts usual_counts = {1, 0, 1000, 17, 300'000, 3};

std::size_t sum_of(const Counts& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

Plan list_plan(hkt_comm* comm, const char* schedule, const Counts& counts,
               hkt_collective collective = HKT_ALL_REDUCE, int root = 0) {
    hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    options.schedule = schedule;
    options.root = root;
    options.tensor_counts = counts.data();
    options.tensors = counts.size();
    hkt_plan* plan = nullptr;
    must(comm, hkt_plan_create(comm, collective, HKT_FLOAT32, HKT_SUM, &options, &plan));
    return Plan(plan);
}

// Tensors in memory of their own, the last one first, with a guard element before and behind each.
class Tensors {
  public:
    static constexpr float untouched = -12345;

    explicit Tensors(const Counts& counts) : counts_(counts) {
        memory_.resize(sum_of(counts) + 2 * counts.size(), untouched);
        std::size_t at = memory_.size();
        for (const std::size_t count : counts) {
            at -= count + 2;
            pointers_.push_back(memory_.data() + at + 1);
        }
    }
    Tensors(const Counts& counts, const std::vector<float>& values) : Tensors(counts) {
        std::size_t at = 0;
        for (std::size_t i = 0; i < counts.size(); ++i)
            for (std::size_t k = 0; k < counts[i]; ++k) pointers_[i][k] = values[at++];
    }
    Tensors(const Tensors&) = delete;

    float* const* list() const { return pointers_.data(); }
    std::vector<float*>& pointers() { return pointers_; }

    // The elements, one tensor after another. Throws if anything beside them has been written.
    std::vector<float> values() const {
        std::vector<float> result;
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            result.insert(result.end(), pointers_[i], pointers_[i] + counts_[i]);
            if (pointers_[i][-1] != untouched || pointers_[i][counts_[i]] != untouched)
                throw std::runtime_error("written beside tensor " + std::to_string(i));
        }
        return result;
    }

  private:
    Counts counts_;
    std::vector<float> memory_;
    std::vector<float*> pointers_;
};

std::vector<float> list_input(int rank, std::size_t count, int step = 0) {
    std::vector<float> x(count);
    for (std::size_t i = 0; i < count; ++i)
        x[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(rank * 13 + step * 29)) % 101) - 50;
    return x;
}

std::vector<float> sums(int ranks, std::size_t count, int step = 0) {
    std::vector<float> all(count);
    for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<float> x = list_input(rank, count, step);
        for (std::size_t i = 0; i < count; ++i) all[i] += x[i];
    }
    return all;
}

hkt_status start_lists(hkt_plan* plan, const void* send, void* recv, std::size_t count, std::size_t tensors,
                       const std::vector<double>& parameters = {},
                       const std::vector<const void*>& buffers = {}, hkt_request** request = nullptr) {
    hkt_start_options options = HKT_START_OPTIONS_INIT;
    options.parameters = parameters.data();
    options.parameter_count = parameters.size();
    options.buffers = buffers.data();
    options.buffer_count = buffers.size();
    options.tensors = tensors;
    return hkt_plan_start_with(plan, send, recv, count, &options, request);
}
// recv is a list: an array of pointers, which Hocket copies and does not write.
void* listed(float* const* pointers) {
    return const_cast<float**>(pointers);
}

}  // namespace

TEST_CASE("Tensors that lie anywhere are summed, and nothing beside them is touched") {
    const Counts counts = usual_counts;
    const std::size_t count = sum_of(counts);
    for (const std::string hosts : {"a", "aa", "ab", "aabb"})
        on_hosts(hosts, "", [&](hkt_comm* comm, int rank) {
            const int ranks = static_cast<int>(hosts.size());
            const Plan plan = list_plan(comm, nullptr, counts);
            const Tensors send(counts, list_input(rank, count)), recv(counts);
            must(comm, start_lists(plan.get(), send.list(), listed(recv.list()), count, counts.size()));
            expect(recv.values() == sums(ranks, count), "the sums are wrong");
            expect(send.values() == list_input(rank, count), "send was written");

            // In place, several in flight, waited for in another order than they were started.
            std::vector<std::unique_ptr<Tensors>> x;
            std::vector<hkt_request*> requests(5);
            for (int step = 0; step < 5; ++step) {
                x.push_back(std::make_unique<Tensors>(counts, list_input(rank, count, step)));
                must(comm, start_lists(plan.get(), x.back()->list(), listed(x.back()->list()), count,
                                       counts.size(), {}, {}, &requests[static_cast<std::size_t>(step)]));
            }
            for (const std::size_t step : {3, 0, 4, 1, 2}) {
                must(comm, hkt_wait(requests[step]));
                expect(x[step]->values() == sums(ranks, count, static_cast<int>(step)), "a start in flight");
            }
        });
}

TEST_CASE("Until a list's start is waited for, its results are not in the tensors") {
    on_hosts("aa", "", [&](hkt_comm* comm, int rank) {
        const Counts counts = {5, 9};
        const Plan plan = list_plan(comm, nullptr, counts);
        const Tensors x(counts, list_input(rank, 14));
        hkt_request* request = nullptr;
        must(comm, start_lists(plan.get(), x.list(), listed(x.list()), 14, 2, {}, {}, &request));
        must(comm, hkt_barrier(comm));
        expect(x.values() == list_input(rank, 14), "the results came early");
        must(comm, hkt_wait(request));
        expect(x.values() == sums(2, 14), "the sums are wrong");
    });
}

TEST_CASE("One rank may have a list where another has a whole buffer") {
    const Counts counts = usual_counts;
    const std::size_t count = sum_of(counts);
    on_hosts("aab", "", [&](hkt_comm* comm, int rank) {
        const Plan plan = list_plan(comm, "ring", counts);
        std::vector<float> whole = list_input(rank, count);
        const Tensors x(counts, whole);
        if (rank == 1)
            must(comm, start_lists(plan.get(), whole.data(), whole.data(), count, 0));
        else
            must(comm, start_lists(plan.get(), x.list(), listed(x.list()), count, counts.size()));
        expect((rank == 1 ? whole : x.values()) == sums(3, count), "the sums are wrong");
    });
}

TEST_CASE("A list's start is ended by a test, and told of, as any other; threads have starts of their own") {
    on_hosts("aa", "", [&](hkt_comm* comm, int rank) {
        const Counts counts = usual_counts;
        const std::size_t count = sum_of(counts);
        const Plan plan = list_plan(comm, "ring", counts);
        for (int step = 0; step < 10; ++step) {
            const Tensors x(counts, list_input(rank, count, step)),
                y(counts, list_input(rank, count, step + 1));
            hkt_request *first = nullptr, *second = nullptr;
            must(comm,
                 start_lists(plan.get(), x.list(), listed(x.list()), count, counts.size(), {}, {}, &first));
            must(comm,
                 start_lists(plan.get(), y.list(), listed(y.list()), count, counts.size(), {}, {}, &second));
            std::atomic<int> told{0};
            must(comm, hkt_request_callback(
                           second, [](void* user) { ++*static_cast<std::atomic<int>*>(user); }, &told));
            hkt_status of_thread = HKT_IN_PROGRESS;
            std::thread other([&] {
                while (of_thread == HKT_IN_PROGRESS) of_thread = hkt_test(first);
            });
            other.join();
            must(comm, of_thread);
            must(comm, hkt_wait(second));
            expect(eventually([&] { return told == 1; }, std::chrono::seconds(30)), "it is told");
            expect(x.values() == sums(2, count, step) && y.values() == sums(2, count, step + 1), "the sums");
        }
    });
}

TEST_CASE("A start of a list that fails leaves the tensors as they were, and the next one fails at once") {
    on_hosts("ab", "", [&](hkt_comm* comm, int rank) {
        const Counts counts = {3000, 5};
        const Plan plan = list_plan(comm, "ring", counts);
        const Tensors x(counts, list_input(rank, 3005));
        if (rank == 0) {
            hkt_request* request = nullptr;
            // The other rank gives up, now or before.
            if (start_lists(plan.get(), x.list(), listed(x.list()), 3005, 2, {}, {}, &request) == HKT_SUCCESS)
                expect(hkt_wait(request) != HKT_SUCCESS, "the other rank has given up");
            else
                expect(request == nullptr, "no request");
        } else {
            must(comm, hkt_comm_abort(comm));
        }
        expect(x.values() == list_input(rank, 3005), "the tensors");
        expect(start_lists(plan.get(), x.list(), listed(x.list()), 3005, 2) != HKT_SUCCESS, "the next start");
        expect(x.values() == list_input(rank, 3005), "the tensors, again");
    });
}

TEST_CASE("Tensors of send and recv may overlap in any way, whether they lie together or not") {
    on_hosts("aa", "", [&](hkt_comm* comm, int rank) {
        const Counts counts = {100, 50, 200};
        const Plan plan = list_plan(comm, nullptr, counts);
        for (const std::size_t shift : {0, 1, 40, 120, 349})
            for (const std::size_t gap : {0, 3}) {
                std::vector<float> memory(1200);
                std::vector<const float*> send;
                std::vector<float*> recv;
                const std::vector<float> x = list_input(rank, 350);
                std::size_t at = 0, from = 0;
                for (const std::size_t n : counts) {
                    send.push_back(memory.data() + at);
                    recv.push_back(memory.data() + at + shift);
                    std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(from), n, memory.data() + at);
                    from += n;
                    at += n + gap;
                }
                must(comm, start_lists(plan.get(), send.data(), listed(recv.data()), 350, 3));
                std::vector<float> result;
                for (std::size_t i = 0; i < 3; ++i) result.insert(result.end(), recv[i], recv[i] + counts[i]);
                expect(result == sums(2, 350), "shift " + std::to_string(shift));
            }
    });
}

TEST_CASE("A schedule that computes for each tensor gives the same bits for lists and for whole buffers") {
    const Counts counts = usual_counts;
    const std::size_t count = sum_of(counts);
    for (const std::string hosts : {"aa", "aabb"})
        on_hosts(hosts, "", [&](hkt_comm* comm, int rank) {
            const Plan by_list = list_plan(comm, "lars", counts), whole = list_plan(comm, "lars", counts);
            std::vector<float> weights = list_input(7, count);
            const Tensors w(counts, weights);
            for (int step = 0; step < 3; ++step) {  // lars keeps a momentum
                std::vector<float> expected = list_input(rank, count, step);
                must(comm, start_lists(whole.get(), expected.data(), expected.data(), count, 0, {0.5},
                                       {weights.data()}));
                const Tensors x(counts, list_input(rank, count, step));
                // The weights lie together, or not.
                std::vector<float*> views;
                for (std::size_t i = 0, at = 0; i < counts.size(); at += counts[i++])
                    views.push_back(weights.data() + at);
                const void* const list = step == 1 ? static_cast<const void*>(views.data()) : w.list();
                must(comm, start_lists(by_list.get(), x.list(), listed(x.list()), count, counts.size(), {0.5},
                                       {list}));
                const std::vector<float> got = x.values();
                expect(std::memcmp(got.data(), expected.data(), count * sizeof(float)) == 0,
                       "step " + std::to_string(step));
                expect(w.values() == weights, "the weights were written");
            }
        });
}

TEST_CASE("A further buffer that lies in recv is copied before recv is written") {
    on_hosts("aa", "", [&](hkt_comm* comm, int rank) {
        const Counts counts = {64, 36};
        const Plan by_list = list_plan(comm, "lars_everywhere", counts),
                   whole = list_plan(comm, "lars_everywhere", counts);
        std::vector<float> x = list_input(rank, 100), expected(100), bucket = list_input(3, 100);
        const std::vector<float> w = bucket;
        must(comm, start_lists(whole.get(), x.data(), expected.data(), 100, 0, {0.5}, {w.data()}));
        const std::vector<float*> send = {x.data(), x.data() + 64},
                                  views = {bucket.data(), bucket.data() + 64};
        must(comm,
             start_lists(by_list.get(), send.data(), listed(views.data()), 100, 2, {0.5}, {views.data()}));
        expect(bucket == expected, "the weights were read too late");
    });
}

TEST_CASE("broadcast and reduce take lists where a rank has the buffer") {
    const Counts counts = {40, 2, 70'000};
    const std::size_t count = sum_of(counts);
    on_hosts("aab", "", [&](hkt_comm* comm, int rank) {
        const Plan broadcast = list_plan(comm, nullptr, counts, HKT_BROADCAST, 1);
        const Tensors x(counts, list_input(rank, count)), got(counts);
        must(comm,
             start_lists(broadcast.get(), rank == 1 ? x.list() : nullptr, listed(got.list()), count, 3));
        expect(got.values() == list_input(1, count), "broadcast");
        const Plan reduce = list_plan(comm, nullptr, counts, HKT_REDUCE, 2);
        const Tensors sum(counts);
        must(comm, start_lists(reduce.get(), x.list(), rank == 2 ? listed(sum.list()) : nullptr, count, 3));
        if (rank == 2) expect(sum.values() == sums(3, count), "reduce");
    });
}

TEST_CASE("Lists of tensors that cannot be worked on are refused, with what is wrong and where") {
    on_hosts("a", "", [&](hkt_comm* comm, int) {
        const Counts counts = {8, 4};
        const Plan plan = list_plan(comm, nullptr, counts), lars = list_plan(comm, "lars", counts),
                   whole = list_plan(comm, nullptr, {}),
                   divided = list_plan(comm, nullptr, counts, HKT_ALL_GATHER);
        std::vector<float> memory(64);
        float* const m = memory.data();
        using List = std::vector<float*>;
        const List right = {m, m + 20};
        const auto refused = [&](const Plan& of, const List& send, const List& recv, std::size_t count,
                                 std::size_t tensors, const char* words,
                                 const std::vector<double>& parameters = {},
                                 const std::vector<const void*>& buffers = {}) {
            const auto list = [](const List& given) {
                return given.empty() ? nullptr : listed(given.data());
            };
            const hkt_status status =
                start_lists(of.get(), list(send), list(recv), count, tensors, parameters, buffers);
            const std::string said = hkt_comm_last_error(comm);
            expect(status == HKT_ERROR_INVALID_ARGUMENT && said.find(words) != std::string::npos,
                   "instead of \"" + std::string(words) + "\": " + said);
        };
        refused(whole, right, right, 12, 2,
                "hkt_start_options.tensors is 2, but hkt_plan_options.tensors was 0");
        refused(plan, right, right, 12, 3,
                "hkt_start_options.tensors is 3, but hkt_plan_options.tensors was 2");
        refused(plan, right, right, 11, 2, "count is 11, but the plan's tensors have 12 elements");
        refused(divided, right, right, 12, 2, "all_gather divides x by rank");
        refused(plan, {}, right, 12, 2, "send is null, but has to be a list");
        refused(plan, right, {}, 12, 2, "recv is null, but has to be a list");
        refused(plan, {m, nullptr}, right, 12, 2, "send[1] is null, but has to have 4 elements");
        refused(plan, right, {m, m + 7}, 12, 2, "recv[0] (32 B from");
        auto* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(m) + 2);
        refused(plan, right, {m + 40, odd}, 12, 2, "which is not a multiple of 4");
        refused(lars, right, right, 12, 2, "buffers[0] is null, but has to be a list", {0.5}, {nullptr});
        refused(lars, right, right, 12, 2, "further buffer", {0.5}, {});
        // Nothing of this has broken anything.
        must(comm, start_lists(plan.get(), right.data(), listed(right.data()), 12, 2));
    });
}

TEST_CASE("A child may destroy a plan with lists that its parent has made") {
    on_hosts("aa", "", [&](hkt_comm* comm, int rank) {
        const Counts counts = {8, 4000};
        Plan plan = list_plan(comm, nullptr, counts);
        const Tensors x(counts, list_input(rank, 4008));
        must(comm, start_lists(plan.get(), x.list(), listed(x.list()), 4008, 2));
        const pid_t child = fork();
        if (child == 0) {
            plan.reset();
            _exit(0);
        }
        int ended = -1;
        expect(waitpid(child, &ended, 0) == child && ended == 0, "the child did not end well");
        const Tensors again(counts, list_input(rank, 4008));
        must(comm, start_lists(plan.get(), again.list(), listed(again.list()), 4008, 2));
        expect(again.values() == sums(2, 4008), "the parent's plan does not work any more");
    });
}
