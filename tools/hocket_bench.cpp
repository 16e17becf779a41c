// hocket-bench: measures and checks one collective over a range of sizes, through the public C ABI alone.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "capi/hocket.h"
#include "tools/hocket_bench_data.hpp"
#include "tools/hocket_bench_options.hpp"
#include "tools/hocket_bench_report.hpp"

namespace hocket::bench {
namespace {

struct Closer {
    void operator()(hkt_comm* comm) const { hkt_comm_destroy(comm); }
    void operator()(hkt_plan* plan) const { hkt_plan_destroy(plan); }
};
using Comm = std::unique_ptr<hkt_comm, Closer>;
using Plan = std::unique_ptr<hkt_plan, Closer>;

void check(hkt_status status, hkt_comm* comm, const char* what) {
    if (status != HKT_SUCCESS)
        throw std::runtime_error(fmt::format("{}: {}", what, hkt_comm_last_error(comm)));
}

const char* null_if_empty(const std::string& text) {
    return text.empty() ? nullptr : text.c_str();
}

Comm join(const Options& options) {
    hkt_comm_options how = HKT_COMM_OPTIONS_INIT;
    how.topology = null_if_empty(options.topology);
    how.provider = null_if_empty(options.provider);
    if (options.executors.size() == 1) how.executor = options.executors[0];
    hkt_comm* comm = nullptr;
    check(hkt_comm_create(&how, &comm), nullptr, "cannot join the job");
    return Comm(comm);
}

Plan make_plan(hkt_comm* comm, const Options& options, hkt_type type, hkt_op op, int root,
               hkt_executor executor) {
    hkt_plan_options how = HKT_PLAN_OPTIONS_INIT;
    how.schedule = null_if_empty(options.schedule);
    how.root = root;
    how.executor = executor;
    hkt_plan* plan = nullptr;
    check(hkt_plan_create(comm, options.collective, type, op, &how, &plan), comm, "cannot make the plan");
    return Plan(plan);
}

// The buffers of one size, out of place (two) or in place (one).
class Buffers {
  public:
    Buffers(const Layout& layout, bool in_place)
        : layout_(layout),
          in_place_(in_place),
          first_((in_place ? layout.larger_count() : layout.send_count()) * element_size(layout.type)),
          second_(in_place ? 0 : layout.recv_count() * element_size(layout.type)) {}

    const void* send() { return layout_.sends() || in_place_ ? input() : nullptr; }
    void* recv() {
        return in_place_ ? first_.at(layout_.recv_offset_in_place() * element_size(layout_.type))
                         : second_.data();
    }

    void prepare(std::uint64_t round) {
        first_.poison();
        second_.poison();
        if (layout_.sends()) fill_input(layout_, round, input());
    }

    // What was written where nothing may be: the guards, and the input.
    std::size_t out_of_bounds(std::uint64_t round) {
        std::size_t count = first_.overwritten_guards() + second_.overwritten_guards();
        if (!layout_.sends()) return count;
        if (!in_place_) return count + count_overwritten(layout_, round, input(), 0, 0);
        if (layout_.collective != HKT_REDUCE_SCATTER) return count;  // recv covers send
        const std::size_t begin = layout_.recv_offset_in_place();
        return count + count_overwritten(layout_, round, input(), begin, begin + layout_.count);
    }

  private:
    void* input() {
        return first_.at(in_place_ ? layout_.send_offset_in_place() * element_size(layout_.type) : 0);
    }

    const Layout& layout_;
    bool in_place_;
    GuardedBuffer first_, second_;
};

class Bench {
  public:
    Bench(const Options& options, hkt_comm* comm) : options_(options), comm_(comm) {}

    // One measurement for each plan; the plans take turns, so that they meet the same conditions.
    std::vector<Measurement> measure(const Layout& layout, const std::vector<Plan>& plans, bool in_place) {
        Buffers buffers(layout, in_place);
        std::vector<Measurement> results(plans.size());
        const auto times = time(layout, plans, buffers);
        for (std::size_t p = 0; p < plans.size(); ++p) {
            results[p].time_us = median(times[p]);
            results[p].fastest_us = *std::min_element(times[p].begin(), times[p].end());
            if (options_.check) check_results(layout, plans[p].get(), buffers, results[p]);
        }
        return results;
    }

  private:
    void run(hkt_plan* plan, const Layout& layout, Buffers& buffers) {
        check(hkt_plan_start(plan, buffers.send(), buffers.recv(), layout.count, nullptr), comm_, "failed");
    }

    // Microseconds of the slowest rank, for each plan and iteration.
    std::vector<std::vector<double>> time(const Layout& layout, const std::vector<Plan>& plans,
                                          Buffers& buffers) {
        using Clock = std::chrono::steady_clock;
        std::vector<std::vector<double>> times(plans.size(), std::vector<double>(options_.iterations));
        buffers.prepare(++round_);
        for (int i = -options_.warmup; i < options_.iterations; ++i)
            for (std::size_t p = 0; p < plans.size(); ++p) {
                check(hkt_barrier(comm_), comm_, "barrier failed");
                const auto start = Clock::now();
                run(plans[p].get(), layout, buffers);
                if (i >= 0)
                    times[p][i] = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
            }
        for (auto& of_plan : times)
            check(hkt_all_reduce(of_plan.data(), of_plan.data(), of_plan.size(), HKT_FLOAT64, HKT_MAX, comm_,
                                 nullptr),
                  comm_, "collecting the times failed");
        return times;
    }

    void check_results(const Layout& layout, hkt_plan* plan, Buffers& buffers, Measurement& result) {
        buffers.prepare(++round_);
        run(plan, layout, buffers);
        std::int64_t found[2] = {static_cast<std::int64_t>(count_wrong(layout, round_, buffers.recv())),
                                 static_cast<std::int64_t>(buffers.out_of_bounds(round_))};
        check(hkt_all_reduce(found, found, 2, HKT_INT64, HKT_SUM, comm_, nullptr), comm_,
              "collecting the checks failed");
        result.wrong = found[0];
        result.out_of_bounds = found[1];
    }

    const Options& options_;
    hkt_comm* comm_;
    std::uint64_t round_ = 0;  // each has inputs of its own: an earlier result can't pass for this one
};

void run_table(const Options& options, hkt_comm* comm, hkt_type type, hkt_op op, int root, Report& report) {
    const int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);
    std::vector<Plan> plans;
    for (hkt_executor executor : options.executors) {
        plans.push_back(make_plan(comm, options, type, op, root, executor));
        if (options.verbose && rank == 0) fmt::print(stderr, "{}\n", hkt_plan_explain(plans.back().get()));
    }
    Bench bench(options, comm);
    for (std::size_t bytes : sizes_of(options)) {
        const Layout layout = layout_for(options.collective, type, op, root, rank, ranks, bytes);
        const auto out_of_place = bench.measure(layout, plans, false),
                   in_place = bench.measure(layout, plans, true);
        for (std::size_t p = 0; p < plans.size(); ++p)
            report.add({layout, options.executors[p], out_of_place[p], in_place[p]});
    }
}

std::string host_name() {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return name;
}

Report::About describe(const Options& options, hkt_comm* comm) {
    auto info = [&](const char* key) {
        const char* value = hkt_comm_info(comm, key);
        return std::string(value != nullptr ? value : "?");
    };
    return {hkt_version(),
            host_name(),
            info("provider"),
            info("topology"),
            options.schedule.empty() ? "(Hocket's choice)" : options.schedule,
            options.executors.size() > 1 ? "both" : info("executor"),
            hkt_comm_size(comm)};
}

int run(const Options& options) {
    const Comm comm = join(options);
    const int ranks = hkt_comm_size(comm.get());
    const bool speaks = hkt_comm_rank(comm.get()) == 0;
    if (options.root < -1 || options.root >= ranks)
        throw std::runtime_error(fmt::format("root {} is not one of the {} ranks", options.root, ranks));
    const bool all_roots = has_root(options.collective) && options.root == -1;
    Report report(options, describe(options, comm.get()), speaks);
    report.print_header();
    for (hkt_type type : options.types)
        for (hkt_op op : options.ops)
            for (int root = all_roots ? 0 : std::max(options.root, 0); root < ranks; ++root) {
                run_table(options, comm.get(), type, op, root, report);
                if (!all_roots) break;
            }
    report.print_footer();
    if (speaks && !options.json_file.empty()) report.write_json(options.json_file);
    return report.wrong() == 0 && report.out_of_bounds() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hocket::bench

int main(int argc, char** argv) {
    const char* rank = std::getenv("RANK");
    const bool quiet = rank != nullptr && std::atoi(rank) != 0;
    int exit_code = 0;
    const auto options = hocket::bench::parse_options(argc, argv, quiet, exit_code);
    if (!options) return exit_code;
    try {
        return hocket::bench::run(*options);
    } catch (const std::exception& error) {
        fmt::print(stderr, "hocket-bench: {}\n", error.what());
        return 1;
    }
}
