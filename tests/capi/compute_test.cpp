// Schedules that compute, as an embedder starts them: sparse all-reduces with and without error feedback,
// element-wise computations with parameters and states, sums over tensors. Everything is compared with a
// plain calculation of the schedule.
#include <hocket.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/base/half.hpp"
#include "runtime/compute/kernels/selection.hpp"
#include "tests/capi/comm.hpp"
#include "tests/capi/computing.hpp"
#include "tests/capi/plan.hpp"
#include "tests/runtime/engine/ranks.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using Catch::Contains;

namespace {

Plan plan_of(hkt_comm* comm, const std::string& schedule, hkt_type type = HKT_FLOAT32,
             const std::vector<std::size_t>& tensors = {}, hkt_collective collective = HKT_ALL_REDUCE,
             hkt_executor executor = HKT_EXECUTOR_DEFAULT) {
    hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    options.schedule = schedule.c_str();
    options.tensor_counts = tensors.data();
    options.tensors = tensors.size();
    options.executor = executor;
    hkt_plan* plan = nullptr;
    must(comm, hkt_plan_create(comm, collective, type, HKT_SUM, &options, &plan));
    return Plan(plan);
}

hkt_status start(hkt_plan* plan, const void* send, void* recv, std::size_t count,
                 const std::vector<double>& parameters = {}, const std::vector<const void*>& buffers = {},
                 hkt_request** request = nullptr) {
    hkt_start_options options = HKT_START_OPTIONS_INIT;
    options.parameters = parameters.data();
    options.parameter_count = parameters.size();
    options.buffers = buffers.data();
    options.buffer_count = buffers.size();
    return hkt_plan_start_with(plan, send, recv, count, &options, request);
}

// ---- What the schedules mean -------------------------------------------------------------------

template <typename T>
std::vector<float> inputs(int rank, int step, std::size_t count) {
    std::vector<float> x(count);
    for (std::size_t i = 0; i < count; ++i)
        x[i] = rounded<T>(scrambled_input(static_cast<std::size_t>(rank), static_cast<std::size_t>(step), i));
    return x;
}

std::size_t selected_of(std::size_t count, double density) {
    if (count == 0 || density == 0) return 0;
    return std::max<std::size_t>(1, static_cast<std::size_t>(density * static_cast<double>(count)));
}

struct Sparse {
    std::vector<std::size_t> indices;
    std::vector<float> values;
};

// The k of the largest magnitude, by a full sort. Of those that tie for the last places, the run that the
// draw begins.
Sparse largest(const std::vector<float>& x, std::size_t k, const hocket::kernels::Draw& draw) {
    std::vector<std::size_t> order(x.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return std::fabs(x[a]) > std::fabs(x[b]); });
    if (k > 0) {
        const float least = std::fabs(x[order[k - 1]]);
        const auto is_above = [&](std::size_t i) { return std::fabs(x[i]) > least; };
        const auto is_tie = [&](std::size_t i) { return std::fabs(x[i]) == least; };
        const auto ties = std::find_if_not(order.begin(), order.end(), is_above);
        const auto end = std::find_if_not(ties, order.end(), is_tie);
        const auto needed = k - static_cast<std::size_t>(ties - order.begin());
        const auto first =
            hocket::kernels::first_of_ties(draw, static_cast<std::uint64_t>(end - ties), needed);
        std::rotate(ties, ties + static_cast<std::ptrdiff_t>(first), end);
    }
    order.resize(k);
    std::sort(order.begin(), order.end());
    Sparse result{order, {}};
    for (const std::size_t i : order) result.values.push_back(x[i]);
    return result;
}

// hitopk on `inner` ranks a host, or naive_ag where that is 1: keeps all ranks' residuals.
template <typename T>
class SparseReference {
  public:
    SparseReference(int ranks, int inner, std::size_t count, double density, bool feedback)
        : ranks_(ranks), inner_(inner), count_(count), density_(density), feedback_(feedback) {
        for (int rank = 0; rank < ranks; ++rank) residuals.emplace_back(size_of(rank), 0.0f);
    }

    std::vector<float> step(int step) {
        std::vector<float> result(count_, 0.0f);
        for (int rank = 0; rank < ranks_; ++rank) {  // pieces are added in the order of ranks
            const std::size_t begin = begin_of(rank % inner_), size = size_of(rank);
            std::vector<float> shard(size, 0.0f);
            for (int member = 0; member < inner_; ++member) {
                const auto x = inputs<T>(rank / inner_ * inner_ + member, step, count_);
                for (std::size_t i = 0; i < size; ++i)
                    shard[i] = member == 0 ? x[begin + i] : rounded<T>(shard[i] + x[begin + i]);
            }
            std::vector<float>& residual = residuals[static_cast<std::size_t>(rank)];
            if (feedback_)
                for (std::size_t i = 0; i < size; ++i) shard[i] += residual[i];
            Sparse sent = largest(shard, selected_of(size, density_),
                                  {0, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(rank)});
            for (std::size_t i = 0; i < sent.indices.size(); ++i) {
                const float value = rounded<T>(sent.values[i]);
                result[begin + sent.indices[i]] += value;
                shard[sent.indices[i]] -= value;
            }
            residual = shard;
        }
        for (float& value : result) value = rounded<T>(value);  // once, however many ranks sent something
        return result;
    }

    std::vector<std::vector<float>> residuals;  // by rank

  private:
    std::size_t begin_of(int member) const {
        return static_cast<std::size_t>(member) * count_ / static_cast<std::size_t>(inner_);
    }
    std::size_t size_of(int rank) const { return begin_of(rank % inner_ + 1) - begin_of(rank % inner_); }

    int ranks_, inner_;
    std::size_t count_;
    double density_;
    bool feedback_;
};

template <typename T>
std::vector<T> stored(const std::vector<float>& x) {
    std::vector<T> result;
    for (const float value : x) result.push_back(static_cast<T>(value));
    return result;
}

template <typename T>
void expect_same(const std::vector<T>& got, const std::vector<float>& wanted, const std::string& what) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const float value = static_cast<float>(got[i]);
        expect(value == wanted[i], [&] {
            return what + ": element " + std::to_string(i) + " is " + std::to_string(value) + ", not " +
                   std::to_string(wanted[i]);
        });
    }
}

template <typename T>
void check_sparse(hkt_comm* comm, int rank, const std::string& schedule, hkt_type type, int inner,
                  std::size_t count, double density, bool feedback, bool in_place) {
    const Plan plan = plan_of(comm, schedule + "(" + std::to_string(density) + ")", type);
    SparseReference<T> reference(hkt_comm_size(comm), inner, count, density, feedback);
    for (int step = 0; step < 4; ++step) {
        std::vector<T> x = stored<T>(inputs<T>(rank, step, count)), y(count);
        T* const recv = in_place ? x.data() : y.data();
        must(comm, hkt_plan_start(plan.get(), x.data(), recv, count, nullptr));
        expect_same(in_place ? x : y, reference.step(step),
                    schedule + " of " + std::to_string(count) + " in step " + std::to_string(step));
    }
}

template <typename T>
void check_all_sparse(hkt_comm* comm, int rank, hkt_type type, bool has_two_levels) {
    for (const std::size_t count : {0, 1, 3, 100, 4099})
        for (const double density : {0.25, 0.01}) {
            check_sparse<T>(comm, rank, "naive_ag", type, 1, count, density, true, false);
            if (has_two_levels)
                check_sparse<T>(comm, rank, "hitopk", type, 2, count, density, true, count == 100);
            // Without a state, the draw among ties depends on the communicator's other starts.
            if (sizeof(T) < sizeof(float)) continue;
            check_sparse<T>(comm, rank, "naive_ag_lossy", type, 1, count, density, false, true);
            if (!has_two_levels) continue;
            check_sparse<T>(comm, rank, "hitopk_lossy", type, 2, count, density, false, false);
        }
}

// ---- Schedules of the tests --------------------------------------------------------------------

class File {
  public:
    explicit File(const std::string& text) : path_(folder_.path() + "/test.sched") {
        std::ofstream(path_) << text;
    }
    std::string schedule(const std::string& name) const { return path_ + ":" + name; }

  private:
    TemporaryFolder folder_;
    std::string path_;
};

const char* const element_wise = R"(
schedule scaled all_reduce(x; rate) with w {
    state v like x
    x = x * 0.5
    all_reduce x over world
    v = 0.75 * v + x / ranks
    x = select(abs(v) > 1 and not (w == 0), max(v, -8) - rate * w, min(sqrt(abs(w)), 3))
}
schedule sharded all_reduce(x; rate) with w {
    reduce_scatter x over world
    partition w over world
    state v like x
    x = x * 0.5
    v = 0.75 * v + x / ranks
    x = select(abs(v) > 1 and not (w == 0), max(v, -8) - rate * w, min(sqrt(abs(w)), 3))
    all_gather x over world
}
schedule averaged all_reduce(x) {
    reduce_scatter x over world using direct
    x = max(x / ranks - 0.1, bfloat16(x))
    all_gather x over world
}
)";

}  // namespace

TEST_CASE("sparse all-reduces give what a full sort says, step after step") {
    for (const auto& [hosts, topology] : {std::pair<std::string, std::string>{"a", ""},
                                          {"aaaa", "2x2"},
                                          {"aabb", ""},
                                          {"abcd", "2x2"},
                                          {"abc", ""}})
        on_hosts(hosts, topology, [&, two = hosts.size() == 4](hkt_comm* comm, int rank) {
            check_all_sparse<float>(comm, rank, HKT_FLOAT32, two);
        });
}

TEST_CASE("sparse all-reduces of 16-bit numbers keep what rounding left") {
    on_hosts("aabb", "", [](hkt_comm* comm, int rank) {
        check_all_sparse<hocket::BFloat16>(comm, rank, HKT_BFLOAT16, true);
        check_all_sparse<hocket::Float16>(comm, rank, HKT_FLOAT16, true);
    });
}

TEST_CASE("16-bit numbers are rounded once, whatever is added up in one statement") {
    const File file(R"(
schedule beside all_reduce(x) with w approximate {
    let s = mstopk(x, 1.0)
    all_gather s over world
    x = 0.75 * w + sum(s)
}
)");
    // More elements than are calculated at a time. Each small part alone is half of the smallest difference
    // from 1 that the type has.
    constexpr std::size_t count = 40'001;
    on_hosts("abc", "", [&](hkt_comm* comm, int rank) {
        std::vector<hocket::BFloat16> x(count), y(count);
        std::vector<float> w(count, 1.0f / 192), sum(count), with_w(count);
        for (std::size_t i = 0; i < count; ++i) {
            const float large = 1 + static_cast<float>(i % 64) / 128;
            x[i] = static_cast<hocket::BFloat16>(rank == 0 ? large : 1.0f / 256);
            sum[i] = large + 1.0f / 128;
            with_w[i] = rounded<hocket::BFloat16>(0.75f * w[i] + sum[i]);
        }
        for (const hkt_executor executor : {HKT_EXECUTOR_DEFAULT, HKT_EXECUTOR_INTERPRETER}) {
            const auto plan_here = [&](const std::string& schedule) {
                return plan_of(comm, schedule, HKT_BFLOAT16, {}, HKT_ALL_REDUCE, executor);
            };
            const Plan plain = plan_here("naive_ag_lossy(1.0)"), beside = plan_here(file.schedule("beside"));
            must(comm, hkt_plan_start(plain.get(), x.data(), y.data(), count, nullptr));
            expect_same(y, sum, "the sum");
            must(comm, start(beside.get(), x.data(), y.data(), count, {}, {w.data()}));
            expect_same(y, with_w, "the sum with w");
        }
    });
}

TEST_CASE("each element is calculated as the schedule says, with parameters, states and further buffers") {
    const File file(element_wise);
    for (const std::string hosts : {"a", "aaaa", "aabb", "abc"})
        for (const char* const name : {"scaled", "sharded"})
            on_hosts(hosts, "", [&](hkt_comm* comm, int rank) {
                const int ranks = hkt_comm_size(comm);
                for (const std::size_t count : {0, 1, 5, 3000}) {
                    const Plan plan = plan_of(comm, file.schedule(name));
                    std::vector<float> v(count, 0.0f), w(count);
                    for (std::size_t i = 0; i < count; ++i)
                        w[i] = i % 5 == 0 ? 0.0f : scrambled_input(99, 0, i);
                    for (int step = 0; step < 3; ++step) {
                        const double rate = 0.125 * (step + 1);
                        // Sums of these are exact.
                        std::vector<float> x(count), y(count), wanted(count);
                        for (std::size_t i = 0; i < count; ++i) {
                            const auto number = [&](int r) {
                                return static_cast<float>((i * 7 + static_cast<std::size_t>(r + step)) % 64);
                            };
                            x[i] = number(rank);
                            float sum = 0;
                            for (int r = 0; r < ranks; ++r) sum += number(r);
                            v[i] = 0.75f * v[i] + sum * 0.5f / static_cast<float>(ranks);
                            wanted[i] = std::fabs(v[i]) > 1 && w[i] != 0
                                            ? std::max(v[i], -8.0f) - static_cast<float>(rate) * w[i]
                                            : std::min(std::sqrt(std::fabs(w[i])), 3.0f);
                        }
                        must(comm, start(plan.get(), x.data(), y.data(), count, {rate}, {w.data()}));
                        expect_same(y, wanted, std::string(name) + " in step " + std::to_string(step));
                    }
                }
            });
}

template <typename T>
void check_averaged(hkt_comm* comm, int rank, hkt_type type, const std::string& schedule) {
    const std::size_t count = 1500;
    const int ranks = hkt_comm_size(comm);
    std::vector<T> x = stored<T>(inputs<T>(rank, 0, count)), y(count);
    std::vector<float> wanted(count, 0.0f);
    for (int r = 0; r < ranks; ++r) {
        const auto other = inputs<T>(r, 0, count);
        for (std::size_t i = 0; i < count; ++i) wanted[i] += other[i];  // all operands in one pass
    }
    for (float& value : wanted) {
        value = rounded<T>(value);
        value =
            rounded<T>(std::max(value / static_cast<float>(ranks) - 0.1f, rounded<hocket::BFloat16>(value)));
    }
    const Plan plan = plan_of(comm, schedule, type);
    expect(ranks == 1 || std::string(hkt_plan_explain(plan.get())).find("then max(") != std::string::npos,
           std::string("the computation is not a part of the combine:\n") + hkt_plan_explain(plan.get()));
    must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), count, nullptr));
    expect_same(y, wanted, "averaged");
}

TEST_CASE("a computation of each sum by itself is done in the pass that makes the sum, with the same bits") {
    const File file(element_wise);
    for (const std::string hosts : {"a", "aaa", "abc"})
        on_hosts(hosts, "", [&](hkt_comm* comm, int rank) {
            check_averaged<float>(comm, rank, HKT_FLOAT32, file.schedule("averaged"));
            check_averaged<hocket::Float16>(comm, rank, HKT_FLOAT16, file.schedule("averaged"));
            check_averaged<hocket::BFloat16>(comm, rank, HKT_BFLOAT16, file.schedule("averaged"));
        });
}

TEST_CASE("an expression is calculated as its parentheses say") {
    const File file(R"(
schedule grouped all_reduce(x; a, b) {
    x = a - (b - x)
    all_reduce x over world
}
)");
    const Comm comm = alone();
    const Plan plan = plan_of(comm.get(), file.schedule("grouped"));
    // 0.5 - 2^24 is rounded, 2^24 - 2^24 is not.
    const float x = 16777216, a = 0.5, b = 16777216;
    float y = 0;
    must(comm.get(), start(plan.get(), &x, &y, 1, {a, b}));
    CHECK(y == 0.5f);
}

// ---- Sums over tensors -------------------------------------------------------------------------

namespace {

const char* const normed = R"(
schedule normed all_reduce(x) with w {
    reduce_scatter x over world
    partition w over world
    let xx = total(x * x)
    let ww = total(w * w)
    all_gather xx over world
    all_gather ww over world
    x = select(sum(xx) > 0, sqrt(sum(ww)) / sqrt(sum(xx)), 1) * x
    all_gather x over world
}
schedule normed_everywhere all_reduce(x) with w {
    all_reduce x over world
    let xx = total(x * x)
    let ww = total(w * w)
    x = select(sum(xx) > 0, sqrt(sum(ww)) / sqrt(sum(xx)), 1) * x
}
)";

std::vector<std::byte> saved_state(hkt_comm* comm, hkt_plan* plan) {
    std::size_t bytes = 0;
    must(comm, hkt_plan_save_state(plan, nullptr, 0, &bytes));
    std::vector<std::byte> saved(bytes);
    must(comm, hkt_plan_save_state(plan, saved.data(), saved.size(), &bytes));
    return saved;
}

hkt_status load(hkt_plan* plan, const std::vector<std::vector<std::byte>>& saved) {
    std::vector<const void*> places;
    std::vector<std::size_t> sizes;
    for (const auto& one : saved) {
        places.push_back(one.data());
        sizes.push_back(one.size());
    }
    return hkt_plan_load_state(plan, places.data(), sizes.data(), saved.size());
}

constexpr std::size_t resharded_count = 1000;
constexpr std::size_t slot_bytes = 1 << 16;

// The saved state of each rank of a job, in memory that later jobs see.
struct Slots {
    explicit Slots(int ranks)
        : memory(static_cast<std::byte*>(shared_memory(static_cast<std::size_t>(ranks) * slot_bytes))),
          count(ranks) {}
    void put(int rank, const std::vector<std::byte>& saved) const {
        const std::size_t size = saved.size();
        std::byte* const slot = memory + static_cast<std::size_t>(rank) * slot_bytes;
        std::memcpy(slot, &size, sizeof size);
        std::memcpy(slot + sizeof size, saved.data(), size);
    }
    std::vector<std::vector<std::byte>> all() const {
        std::vector<std::vector<std::byte>> saved;
        for (int rank = 0; rank < count; ++rank) {
            std::byte* const slot = memory + static_cast<std::size_t>(rank) * slot_bytes;
            std::size_t size = 0;
            std::memcpy(&size, slot, sizeof size);
            saved.emplace_back(slot + sizeof size, slot + sizeof size + size);
        }
        return saved;
    }
    std::byte* memory;
    int count;
};

// One step with inputs of 0 and everything selected: its result is the sum of all residuals.
std::vector<float> remaining(hkt_comm* comm, const std::vector<std::vector<std::byte>>& saved) {
    const Plan plan = plan_of(comm, "hitopk(1)");
    must(comm, load(plan.get(), saved));
    std::vector<float> x(resharded_count, 0.0f), y(resharded_count);
    must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), x.size(), nullptr));
    return y;
}

}  // namespace

TEST_CASE("sums over tensors are the same on all ranks, wherever tensors are cut") {
    const File file(normed);
    const std::vector<std::size_t> tensors = {0, 700, 1, 64, 0, 2300, 5};
    const std::size_t count = std::accumulate(tensors.begin(), tensors.end(), std::size_t{0});
    for (const std::string hosts : {"a", "aabb", "abc"})
        on_hosts(hosts, "", [&](hkt_comm* comm, int) {
            const Plan empty = plan_of(comm, file.schedule("normed"));
            const float nothing = 0;
            float result = 0;
            must(comm, start(empty.get(), &nothing, &result, 0, {}, {&nothing}));
        });
    for (const std::string hosts : {"a", "aabb", "abc"})
        for (const char* const name : {"normed", "normed_everywhere"})
            on_hosts(hosts, "", [&](hkt_comm* comm, int rank) {
                const int ranks = hkt_comm_size(comm);
                for (const bool is_list : {true, false}) {
                    const auto list = is_list ? tensors : std::vector<std::size_t>();
                    const Plan plan = plan_of(comm, file.schedule(name), HKT_FLOAT32, list);
                    std::vector<float> x(count), y(count), sum(count), w(count);
                    for (std::size_t i = 0; i < count; ++i) {
                        const auto number = [&](int r) {
                            return static_cast<float>((i * 3 + static_cast<std::size_t>(r)) % 32);
                        };
                        x[i] = number(rank);
                        for (int r = 0; r < ranks; ++r) sum[i] += number(r);
                        if (i < 700) x[i] = sum[i] = 0;
                        w[i] = static_cast<float>(i % 9);
                    }
                    must(comm, start(plan.get(), x.data(), y.data(), count, {}, {w.data()}));
                    // All squares are whole numbers, and so are their sums.
                    std::vector<float> wanted(count);
                    std::size_t begin = 0;
                    for (const std::size_t size : is_list ? tensors : std::vector<std::size_t>{count}) {
                        float xx = 0, ww = 0;
                        for (std::size_t i = begin; i < begin + size; ++i)
                            xx += sum[i] * sum[i], ww += w[i] * w[i];
                        for (std::size_t i = begin; i < begin + size; ++i)
                            wanted[i] = (xx > 0 ? std::sqrt(ww) / std::sqrt(xx) : 1) * sum[i];
                        begin += size;
                    }
                    expect_same(y, wanted, name);
                }
            });
}

TEST_CASE("a saved state goes on where it was saved, bit for bit") {
    const Slots slots(4);
    on_hosts("aabb", "", [&](hkt_comm* comm, int rank) {
        const Plan plan = plan_of(comm, "hitopk(0.05)");
        std::vector<float> y(resharded_count);
        for (int step = 0; step < 3; ++step) {
            const auto x = inputs<float>(rank, step, resharded_count);
            must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), x.size(), nullptr));
        }
        slots.put(rank, saved_state(comm, plan.get()));
    });
    on_hosts("aabb", "", [&](hkt_comm* comm, int rank) {
        SparseReference<float> reference(4, 2, resharded_count, 0.05, true);
        for (int step = 0; step < 3; ++step) reference.step(step);
        auto saved = slots.all();
        std::swap(saved[0], saved[3]);  // in any order
        const Plan plan = plan_of(comm, "hitopk(0.05)");
        must(comm, load(plan.get(), saved));
        std::vector<float> y(resharded_count);
        for (int step = 3; step < 5; ++step) {
            const auto x = inputs<float>(rank, step, resharded_count);
            must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), x.size(), nullptr));
            expect_same(y, reference.step(step), "after loading, step " + std::to_string(step));
        }
        must(comm, hkt_plan_reset_state(plan.get()));
        SparseReference<float> fresh(4, 2, resharded_count, 0.05, true);
        const auto x = inputs<float>(rank, 0, resharded_count);
        must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), x.size(), nullptr));
        expect_same(y, fresh.step(0), "after a reset");
    });
}

TEST_CASE("ranks whose states are of different steps are told so, before anything is calculated") {
    const Slots three(2), one(2);
    on_hosts("ab", "", [&](hkt_comm* comm, int rank) {
        const Plan plan = plan_of(comm, "naive_ag(0.5)");
        const std::vector<float> x(8, 1.0f);
        std::vector<float> y(8);
        for (int step = 0; step < 3; ++step) {
            must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), 8, nullptr));
            if (step != 1) (step == 0 ? one : three).put(rank, saved_state(comm, plan.get()));
        }
    });
    using Change = std::function<void(hkt_comm*, hkt_plan*)>;
    const Change reset = [](hkt_comm* comm, hkt_plan* plan) { must(comm, hkt_plan_reset_state(plan)); };
    const Change load_one = [&](hkt_comm* comm, hkt_plan* plan) { must(comm, load(plan, one.all())); };
    const Change load_three = [&](hkt_comm* comm, hkt_plan* plan) { must(comm, load(plan, three.all())); };
    const Change nothing = [](hkt_comm*, hkt_plan*) {};
    for (const char* hosts : {"ab", "aa"})
        for (const auto& [by_rank_0, by_rank_1] :
             {std::pair(reset, nothing), std::pair(load_one, nothing), std::pair(load_three, nothing),
              std::pair(load_one, load_three), std::pair(reset, load_one)})
            on_hosts(hosts, "", [&](hkt_comm* comm, int rank) {
                const Plan plan = plan_of(comm, "naive_ag(0.5)");
                const std::vector<float> x(8, 1.0f);
                std::vector<float> y(8);
                for (int step = 0; step < 3; ++step)
                    must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), 8, nullptr));
                (rank == 0 ? by_rank_0 : by_rank_1)(comm, plan.get());
                const auto text = failure_of(comm, hkt_plan_start(plan.get(), x.data(), y.data(), 8, nullptr),
                                             HKT_ERROR_MISMATCH);
                for (const char* part : {"rank 0 started ", "rank 1 started ", "with its state after "})
                    expect(text.find(part) != std::string::npos, text);
            });
    // All of them alike, though with starts in flight.
    on_hosts("ab", "", [&](hkt_comm* comm, int) {
        const Plan plan = plan_of(comm, "naive_ag(0.5)");
        const std::vector<float> x(8, 1.0f);
        std::vector<float> y(8), z(8);
        for (const Change& change : {nothing, load_three, load_one, reset}) {
            change(comm, plan.get());
            hkt_request *first = nullptr, *second = nullptr;
            must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), 8, &first));
            must(comm, hkt_plan_start(plan.get(), x.data(), z.data(), 8, &second));
            must(comm, hkt_wait(second));
            must(comm, hkt_wait(first));
        }
    });
}

TEST_CASE("a state of no elements is saved and loaded, and the next start may have any count") {
    const Slots slots(2);
    on_hosts("ab", "", [&](hkt_comm* comm, int rank) {
        float x = 0;
        const Plan plan = plan_of(comm, "naive_ag(0.1)");
        std::size_t bytes = 0;
        failure_of(comm, hkt_plan_save_state(plan.get(), nullptr, 0, &bytes), HKT_ERROR_INVALID_ARGUMENT);
        must(comm, hkt_plan_start(plan.get(), &x, &x, 0, nullptr));
        slots.put(rank, saved_state(comm, plan.get()));
    });
    on_hosts("ab", "", [&](hkt_comm* comm, int rank) {
        const Plan plan = plan_of(comm, "naive_ag(0.5)");
        const std::vector<float> x(8, 1.0f);
        std::vector<float> y(8);
        must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), 8, nullptr));
        must(comm, load(plan.get(), slots.all()));  // instead of that of 8 elements
        expect(saved_state(comm, plan.get()) == slots.all()[static_cast<std::size_t>(rank)],
               "what was loaded");
        must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), 6, nullptr));
        must(comm, hkt_plan_reset_state(plan.get()));
        std::size_t bytes = 0;
        failure_of(comm, hkt_plan_save_state(plan.get(), nullptr, 0, &bytes), HKT_ERROR_INVALID_ARGUMENT);
    });
}

TEST_CASE("a job of another size takes over all that was not sent yet") {
    const Slots slots(4);
    on_hosts("aabb", "", [&](hkt_comm* comm, int rank) {
        const Plan plan = plan_of(comm, "hitopk(0.05)");
        std::vector<float> x(resharded_count), y(resharded_count);
        for (int step = 0; step < 3; ++step) {
            // Whole numbers: no sum of them is rounded.
            for (std::size_t i = 0; i < x.size(); ++i)
                x[i] = std::floor(
                    scrambled_input(static_cast<std::size_t>(rank), static_cast<std::size_t>(step), i) * 64);
            must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), x.size(), nullptr));
        }
        slots.put(rank, saved_state(comm, plan.get()));
    });
    auto* const first = static_cast<float*>(shared_memory(resharded_count * sizeof(float)));
    on_hosts("aabb", "", [&](hkt_comm* comm, int rank) {
        const std::vector<float> left = remaining(comm, slots.all());
        if (rank == 0) std::copy(left.begin(), left.end(), first);
    });
    CHECK(std::any_of(first, first + resharded_count, [](float value) { return value != 0; }));
    for (const auto& [hosts, topology] : {std::pair<std::string, std::string>{"ab", "1x2"},
                                          {"aa", "2x1"},
                                          {"aaabbb", "3x2"},
                                          {"abcabc", "2x3"}})
        on_hosts(hosts, topology, [&](hkt_comm* comm, int) {
            expect_same(remaining(comm, slots.all()), std::vector<float>(first, first + resharded_count),
                        "what is left of each element");
        });
}

TEST_CASE("what all ranks keep alike is the same on all ranks of a job of another size") {
    const File file(R"(
schedule heavy all_reduce(x) {
    all_reduce x over world
    state v like x
    v = 0.5 * v + x / ranks
    x = v
}
)");
    const std::size_t count = 50;
    const Slots slots(4);
    on_hosts("aabb", "", [&](hkt_comm* comm, int rank) {
        const Plan plan = plan_of(comm, file.schedule("heavy"));
        const std::vector<float> x(count, 8.0f);
        std::vector<float> y(count);
        for (int step = 0; step < 2; ++step)
            must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), count, nullptr));
        expect_same(y, std::vector<float>(count, 12.0f), "before");
        slots.put(rank, saved_state(comm, plan.get()));
    });
    for (const std::string hosts : {"ab", "aa", "a", "abcabc"})
        on_hosts(hosts, "", [&](hkt_comm* comm, int) {
            const Plan plan = plan_of(comm, file.schedule("heavy"));
            must(comm, load(plan.get(), slots.all()));
            const std::vector<float> x(count, 8.0f);
            std::vector<float> y(count);
            must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), count, nullptr));
            expect_same(y, std::vector<float>(count, 14.0f), "after loading");
        });
}

TEST_CASE("what is moved to all ranks, and what groups of ranks hold alike, is counted once in another job") {
    const File file(R"(
schedule moved broadcast(x, root) {
    broadcast x over world from root
    state v like x
    v = 0.5 * v + x
    x = v
}
schedule grouped all_reduce(x) {
    all_reduce x over levels[0]
    state v like x
    v = 0.5 * v + x
    x = v
    all_reduce x over levels[1]
}
)");
    const std::size_t count = 50;
    const auto result_of = [&](hkt_comm* comm, hkt_plan* plan, float value) {
        const std::vector<float> x(count, value);
        std::vector<float> y(count);
        must(comm, hkt_plan_start(plan, x.data(), y.data(), count, nullptr));
        return y;
    };
    for (const auto& [name, collective, sum] :
         {std::tuple{"moved", HKT_BROADCAST, 8.0f}, std::tuple{"grouped", HKT_ALL_REDUCE, 32.0f}}) {
        const Slots slots(4);
        on_hosts("aabb", "2x2", [&](hkt_comm* comm, int rank) {
            const Plan plan = plan_of(comm, file.schedule(name), HKT_FLOAT32, {}, collective);
            expect_same(result_of(comm, plan.get(), 8), std::vector<float>(count, sum), "before");
            slots.put(rank, saved_state(comm, plan.get()));
        });
        for (const auto& [hosts, topology] : {std::pair<std::string, std::string>{"aabb", "2x2"},
                                              {"aaaa", "4x1"},
                                              {"abcd", "1x4"},
                                              {"aa", "2x1"},
                                              {"ab", "1x2"},
                                              {"aaabbb", "3x2"}})
            on_hosts(hosts, topology, [&](hkt_comm* comm, int) {
                const Plan plan = plan_of(comm, file.schedule(name), HKT_FLOAT32, {}, collective);
                must(comm, load(plan.get(), slots.all()));
                expect_same(result_of(comm, plan.get(), 0), std::vector<float>(count, sum / 2),
                            "after loading");
            });
    }
}

TEST_CASE("the state of a collective of pieces is for the count that its starts are given") {
    const File file(R"(
schedule kept reduce_scatter(x) {
    reduce_scatter x over world
    state v like x
    v = 0.5 * v + x
    x = v
}
)");
    const std::size_t count = 12;
    const Slots slots(2);
    const auto result_of = [&](hkt_comm* comm, hkt_plan* plan, float value, std::size_t piece) {
        const std::vector<float> x(piece * static_cast<std::size_t>(hkt_comm_size(comm)), value);
        std::vector<float> y(piece);
        must(comm, hkt_plan_start(plan, x.data(), y.data(), piece, nullptr));
        return y;
    };
    const auto plan_here = [&](hkt_comm* comm) {
        return plan_of(comm, file.schedule("kept"), HKT_FLOAT32, {}, HKT_REDUCE_SCATTER);
    };
    on_hosts("ab", "", [&](hkt_comm* comm, int rank) {
        const Plan plan = plan_here(comm);
        expect_same(result_of(comm, plan.get(), 8, count), std::vector<float>(count, 16.0f), "before");
        slots.put(rank, saved_state(comm, plan.get()));
    });
    on_hosts("ab", "", [&](hkt_comm* comm, int rank) {
        const Plan plan = plan_here(comm);
        must(comm, load(plan.get(), slots.all()));
        expect(saved_state(comm, plan.get()) == slots.all()[static_cast<std::size_t>(rank)], "saved again");
        expect_same(result_of(comm, plan.get(), 8, count), std::vector<float>(count, 24.0f), "after");
        std::vector<float> x(8 * count), y(8 * count);
        const std::string refusal =
            failure_of(comm, hkt_plan_start(plan.get(), x.data(), y.data(), 2 * count, nullptr),
                       HKT_ERROR_INVALID_ARGUMENT);
        expect(refusal.find("keeps a state for a count of 12 and is started with 24") != std::string::npos,
               refusal);
    });
    on_hosts("abc", "", [&](hkt_comm* comm, int) {
        const Plan plan = plan_here(comm);
        must(comm, load(plan.get(), slots.all()));
        expect_same(result_of(comm, plan.get(), 0, 8), std::vector<float>(8, 8.0f), "on three ranks");
    });
    on_hosts("abcde", "", [&](hkt_comm* comm, int) {
        const Plan plan = plan_here(comm);
        const std::string refusal =
            failure_of(comm, load(plan.get(), slots.all()), HKT_ERROR_INVALID_ARGUMENT);
        expect(refusal.find("saved for 24 elements, which are no 5 pieces of one count") != std::string::npos,
               refusal);
    });
}

TEST_CASE("a state of another count takes the place of the plan's, also where both counts share a plan") {
    const Comm comm = alone();
    const Plan first = plan_of(comm.get(), "naive_ag(0.1)"), second = plan_of(comm.get(), "naive_ag(0.1)");
    std::vector<float> x = inputs<float>(0, 0, 120), y(120);
    must(comm.get(), hkt_plan_start(first.get(), x.data(), y.data(), 120, nullptr));
    must(comm.get(), hkt_plan_start(second.get(), x.data(), y.data(), 100, nullptr));
    const std::vector<std::byte> saved = saved_state(comm.get(), first.get());
    must(comm.get(), load(second.get(), {saved}));
    CHECK(saved_state(comm.get(), second.get()) == saved);
    must(comm.get(), hkt_plan_start(second.get(), x.data(), y.data(), 120, nullptr));
    // The error for a state of another step or of another schedule says so.
    const Plan other = plan_of(comm.get(), "dgc");
    CHECK_THAT(failure_of(comm.get(), load(other.get(), {saved}), HKT_ERROR_INVALID_ARGUMENT),
               Contains("it is of schedule naive_ag, not of dgc"));
}

// ---- Errors ------------------------------------------------------------------------------------

TEST_CASE("what a schedule that computes is given wrong is an error that says what") {
    const File file(element_wise);
    const Comm comm = alone();
    const auto refused = [&](hkt_status status) {
        return failure_of(comm.get(), status, HKT_ERROR_INVALID_ARGUMENT);
    };
    std::vector<float> x(10), y(10), w(10);
    const Plan plan = plan_of(comm.get(), file.schedule("scaled"));
    CHECK(std::string(hkt_plan_parameter(plan.get(), 0)) == "rate");
    CHECK(hkt_plan_parameter(plan.get(), 1) == nullptr);
    CHECK_THAT(refused(hkt_plan_start(plan.get(), x.data(), y.data(), 10, nullptr)),
               Contains("schedule scaled takes 1 parameter at each start, and got 0"));
    CHECK_THAT(refused(start(plan.get(), x.data(), y.data(), 10, {1, 2}, {w.data()})), Contains("got 2"));
    CHECK_THAT(refused(start(plan.get(), x.data(), y.data(), 10, {1})),
               Contains("takes 1 further buffer at each start, and got 0"));
    CHECK_THAT(refused(start(plan.get(), x.data(), y.data(), 10, {1}, {nullptr})),
               Contains("a further buffer of schedule scaled is null"));
    CHECK_THAT(refused(start(plan.get(), x.data(), y.data(), 10, {1}, {y.data() + 9})),
               Contains("buffers[0] overlaps recv"));
    CHECK_THAT(refused(start(plan.get(), x.data(), y.data(), 10, {1},
                             {reinterpret_cast<const std::byte*>(w.data()) + 1})),
               Contains("buffers[0] is 0x") && Contains("not a multiple of 4"));
    must(comm.get(), start(plan.get(), x.data(), y.data(), 10, {1}, {w.data()}));
    CHECK_THAT(refused(start(plan.get(), x.data(), y.data(), 9, {1}, {w.data()})),
               Contains("keeps a state for a count of 10 and is started with 9"));

    const Plan sparse = plan_of(comm.get(), "dgc");
    CHECK_THAT(refused(start(sparse.get(), x.data(), y.data(), 10, {1.5})),
               Contains("density is 1.5") && Contains("from 0 to 1"));
    std::size_t bytes = 0;
    CHECK_THAT(refused(hkt_plan_save_state(sparse.get(), nullptr, 0, &bytes)),
               Contains("has not been started"));

    hkt_plan* none = nullptr;
    hkt_plan_options options = HKT_PLAN_OPTIONS_INIT;
    options.schedule = "naive_ag";
    CHECK_THAT(refused(hkt_plan_create(comm.get(), HKT_ALL_REDUCE, HKT_INT32, HKT_SUM, &options, &none)),
               Contains("floating-point numbers, not with int32"));
    CHECK_THAT(refused(hkt_plan_create(comm.get(), HKT_ALL_REDUCE, HKT_FLOAT64, HKT_SUM, &options, &none)),
               Contains("not of float64"));
    CHECK_THAT(refused(hkt_plan_create(comm.get(), HKT_ALL_REDUCE, HKT_FLOAT32, HKT_MAX, &options, &none)),
               Contains("its operator must be sum, average or premul_sum, not max"));
    const std::size_t tensors[] = {4, 5};
    options.tensor_counts = tensors;
    options.tensors = 2;
    must(comm.get(), hkt_plan_create(comm.get(), HKT_ALL_REDUCE, HKT_FLOAT32, HKT_SUM, &options, &none));
    const Plan listed(none);
    CHECK_THAT(refused(hkt_plan_start(listed.get(), x.data(), y.data(), 10, nullptr)),
               Contains("2 tensors have 9 elements, but it is started with 10"));
    CHECK(hkt_comm_status(comm.get()) == HKT_SUCCESS);
}

TEST_CASE("a saved state that is damaged or not whole is refused, and the plan's stays as it is") {
    const Comm comm = alone();
    const Plan plan = plan_of(comm.get(), "naive_ag(0.1)");
    std::vector<float> x = inputs<float>(0, 0, 100), y(100);
    must(comm.get(), hkt_plan_start(plan.get(), x.data(), y.data(), 100, nullptr));
    const std::vector<std::byte> saved = saved_state(comm.get(), plan.get());
    const auto refused = [&](const std::vector<std::vector<std::byte>>& states) {
        return failure_of(comm.get(), load(plan.get(), states), HKT_ERROR_INVALID_ARGUMENT);
    };
    CHECK_THAT(refused({saved, saved}),
               Contains("2 saved states are given, but a job of 1 ranks saved them"));
    CHECK_THAT(refused({}), Contains("no saved state is given"));
    for (std::size_t at = 0; at < saved.size(); ++at) {
        auto damaged = saved;
        damaged[at] ^= std::byte{1};
        const std::string refusal = refused({damaged});
        CHECK_THAT(refusal, Contains("saved state 0 cannot be loaded: it is not a state") ||
                                Contains("saved state 0 cannot be loaded: its checksum is wrong"));
        refused({std::vector<std::byte>(saved.begin(), saved.begin() + static_cast<std::ptrdiff_t>(at))});
    }
    CHECK(saved_state(comm.get(), plan.get()) == saved);
    must(comm.get(), load(plan.get(), {saved}));
    CHECK(saved_state(comm.get(), plan.get()) == saved);
}

TEST_CASE("a further buffer may lie right behind what is received, and anywhere if nothing is") {
    const File file(R"(
schedule pieces reduce_scatter(x) with w {
    reduce_scatter x over world
    partition w over world
    x = x + w
}
schedule rooted reduce(x, root) with w {
    x = x + w
    reduce x over world to root
}
)");
    on_hosts("ab", "", [&](hkt_comm* comm, int rank) {
        std::vector<float> x(8, 1.0f), memory(20, 0.5f);
        const Plan pieces = plan_of(comm, file.schedule("pieces"), HKT_FLOAT32, {}, HKT_REDUCE_SCATTER);
        const auto pieces_with = [&](std::size_t w) {
            return start(pieces.get(), x.data(), memory.data() + 8, 4, {}, {memory.data() + w});
        };
        must(comm, pieces_with(12));
        must(comm, pieces_with(0));
        expect_same(std::vector<float>(memory.begin() + 8, memory.begin() + 12), {2.5f, 2.5f, 2.5f, 2.5f},
                    "x + w");
        for (const std::size_t w : {1, 8, 11})
            expect(failure_of(comm, pieces_with(w), HKT_ERROR_INVALID_ARGUMENT)
                           .find("buffers[0] overlaps recv") != std::string::npos,
                   "overlaps");
        const Plan rooted = plan_of(comm, file.schedule("rooted"), HKT_FLOAT32, {}, HKT_REDUCE);
        float* const recv = rank == 0 ? memory.data() + 8 : memory.data();
        must(comm, start(rooted.get(), x.data(), recv, 8, {}, {memory.data()}));
        if (rank == 0) expect(memory[8] == 3, "the sum is " + std::to_string(memory[8]));
    });
}

TEST_CASE("parameters that differ between ranks are a mismatch, and a function has no state to keep") {
    const File file(element_wise);
    on_hosts("ab", "", [&](hkt_comm* comm, int rank) {
        const std::vector<float> x(10), w(10);
        std::vector<float> y(10);
        const Plan plan = plan_of(comm, file.schedule("scaled"));
        const auto text = failure_of(
            comm, start(plan.get(), x.data(), y.data(), 10, {1.0 + rank}, {w.data()}), HKT_ERROR_MISMATCH);
        for (const char* part :
             {"rank 0 started ", "with parameters 1", "rank 1 started ", "with parameters 2"})
            expect(text.find(part) != std::string::npos, text);
    });
    on_hosts("ab", "", [&](hkt_comm* comm, int rank) {
        const std::vector<float> x(10), w(10);
        std::vector<float> y(10);
        const std::vector<std::size_t> tensors = {5, rank == 0 ? 5u : 4u, rank == 0 ? 0u : 1u};
        const Plan plan = plan_of(comm, "lars", HKT_FLOAT32, tensors);
        const auto text = failure_of(comm, start(plan.get(), x.data(), y.data(), 10, {1.0}, {w.data()}),
                                     HKT_ERROR_MISMATCH);
        for (const char* part :
             {"also the parameters and tensors", "with tensors of 5, 5, 0", "with tensors of 5, 4, 1"})
            expect(text.find(part) != std::string::npos, text);
    });
    hkt_comm_options options = HKT_COMM_OPTIONS_INIT;
    options.rank = 0;
    options.world_size = 1;
    options.schedule = "naive_ag";
    const Comm comm = join(&options);
    std::vector<float> x(10), y(10);
    CHECK_THAT(failure_of(comm.get(),
                          hkt_all_reduce(x.data(), y.data(), 10, HKT_FLOAT32, HKT_SUM, comm.get(), nullptr),
                          HKT_ERROR_INVALID_ARGUMENT),
               Contains("schedule naive_ag(0.01) keeps a state, which needs a plan of its own"));
}

TEST_CASE("starts of a plan with a state take turns, also when several are in flight") {
    on_hosts("aabb", "", [](hkt_comm* comm, int rank) {
        const Plan plan = plan_of(comm, "hitopk(0.1)");
        SparseReference<float> reference(4, 2, 500, 0.1, true);
        std::vector<std::vector<float>> x, y(5, std::vector<float>(500));
        std::vector<hkt_request*> requests(5);
        for (int step = 0; step < 5; ++step) x.push_back(inputs<float>(rank, step, 500));
        for (std::size_t step = 0; step < 5; ++step)
            must(comm, hkt_plan_start(plan.get(), x[step].data(), y[step].data(), 500, &requests[step]));
        for (std::size_t step = 0; step < 5; ++step) {
            must(comm, hkt_wait(requests[step]));
            expect_same(y[step], reference.step(static_cast<int>(step)), "step " + std::to_string(step));
        }
    });
}

TEST_CASE("a NaN reaches all ranks, and leaves the residual of its rank alone") {
    on_hosts("aabb", "", [](hkt_comm* comm, int rank) {
        const Plan plan = plan_of(comm, "hitopk(0.1)");
        SparseReference<float> reference(4, 2, 500, 0.1, true);
        std::vector<float> y(500);
        auto x = inputs<float>(rank, 0, 500);
        must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), 500, nullptr));
        reference.step(0);
        const std::vector<std::byte> before = saved_state(comm, plan.get());
        if (rank == 1) x[7] = std::nanf("");
        must(comm, hkt_plan_start(plan.get(), x.data(), y.data(), 500, nullptr));
        expect(std::any_of(y.begin(), y.end(), [](float value) { return std::isnan(value); }), "no NaN came");
        // Rank 0 keeps the half of x in which the sum of ranks 0 and 1 is not finite. Only the number of
        // starts has changed in its state.
        if (rank == 0) {
            const std::vector<std::byte> after = saved_state(comm, plan.get());
            expect(after.size() == before.size() &&
                       std::equal(before.begin() + 64, before.end() - 8, after.begin() + 64),
                   "the residual has changed");
        }
    });
}
