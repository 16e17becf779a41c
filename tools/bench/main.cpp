// hocket-bench: measures and checks one collective, or messages between two ranks, over a range of sizes,
// through the public C ABI only.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "capi/hocket.h"
#include "dsl/base/named_file.hpp"
#include "tools/bench/comm.hpp"
#include "tools/bench/data.hpp"
#include "tools/bench/kernel_bench.hpp"
#include "tools/bench/kernel_options.hpp"
#include "tools/bench/memory.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/predictions.hpp"
#include "tools/bench/report.hpp"
#include "tools/bench/runner.hpp"
#include "tools/bench/time.hpp"
#include "tools/tool.hpp"

namespace hocket::bench {
namespace {

// The buffers of one size, out of place (two) or in place (one).
class Buffers {
  public:
    Buffers(const Layout& layout, bool in_place, const Allocate& allocate)
        : layout_(layout),
          in_place_(in_place),
          first_((in_place ? layout.larger_count() : layout.send_count()) * hkt_type_size(layout.type),
                 allocate),
          second_(in_place ? 0 : layout.most_recv_count() * hkt_type_size(layout.type), allocate) {}

    // Return the buffers as operations take them.
    const void* send() { return layout_.sends() || in_place_ ? first_.given(input_offset()) : nullptr; }
    void* recv() { return in_place_ ? first_.given(result_offset()) : second_.given(); }

    void prepare(std::uint64_t round) {
        first_.poison();
        second_.poison();
        if (layout_.sends()) fill_input(layout_, round, input());
        first_.to_device();
        second_.to_device();
    }

    // Returns recv() as this program can read it; anything written from now on was received.
    const void* result() {
        first_.from_device();
        second_.from_device();
        return in_place_ ? first_.at(result_offset()) : second_.data();
    }

    // Returns the number of bytes written where nothing may be written: in the guards, in the input, and
    // beside the result. Call it after result().
    std::size_t out_of_bounds(std::uint64_t round) {
        const std::size_t element = hkt_type_size(layout_.type);
        const Range used = in_place_ ? layout_.used_in_place() : Range{0, layout_.recv_count()};
        const Range bytes{used.begin * element, used.end * element};
        const std::size_t count = first_.overwritten_guards() + second_.overwritten_guards() +
                                  (in_place_ ? first_ : second_).overwritten_outside(bytes);
        if (!layout_.sends()) return count;
        return count +
               count_overwritten(layout_, round, input(), in_place_ ? layout_.covered_in_place() : Range{});
    }

  private:
    std::size_t input_offset() const {
        return in_place_ ? layout_.send_offset_in_place() * hkt_type_size(layout_.type) : 0;
    }
    std::size_t result_offset() const { return layout_.recv_offset_in_place() * hkt_type_size(layout_.type); }
    void* input() { return first_.at(input_offset()); }

    const Layout& layout_;
    bool in_place_;
    GuardedBuffer first_, second_;
};

class Bench {
  public:
    // device: holds the buffers; null for host memory
    Bench(const Options& options, const Device* device, hkt_comm* comm, Method method)
        : options_(options),
          device_(device),
          comm_(comm),
          loop_{method, options.warmup, options.iterations} {}

    // Makes one measurement for each runner.
    std::vector<Measurement> measure(const Layout& layout, std::deque<Runner>& runners, bool in_place) {
        Buffers buffers(layout, in_place,
                        device_                                 ? device_->memory()
                        : options_.memory == MemoryKind::shared ? shared_memory(comm_)
                                                                : private_memory);
        buffers.prepare(++round_);
        for (Runner& runner : runners) runner.prepare(layout);
        const auto timings = bench::measure(comm_, loop_, static_cast<int>(runners.size()), [&](int runner) {
            runners[runner].run(layout, buffers.send(), buffers.recv());
            if (device_) device_->synchronize();
        });
        std::vector<Measurement> results;
        for (std::size_t r = 0; r < runners.size(); ++r) {
            results.push_back({timings[r]});
            if (options_.check) check_results(layout, runners[r], buffers, results[r]);
        }
        return results;
    }

  private:
    void check_results(const Layout& layout, const Runner& runner, Buffers& buffers, Measurement& result) {
        buffers.prepare(++round_);
        runner.run(layout, buffers.send(), buffers.recv());
        std::int64_t found[2] = {static_cast<std::int64_t>(count_wrong(layout, round_, buffers.result())),
                                 static_cast<std::int64_t>(buffers.out_of_bounds(round_))};
        combine(comm_, found, 2, HKT_INT64, HKT_SUM, "collecting the checks failed");
        result.wrong = found[0];
        result.out_of_bounds = found[1];
    }

    const Options& options_;
    const Device* device_;
    hkt_comm* comm_;
    const Loop loop_;
    // Each round has its own inputs, so that an earlier result can't pass for this one.
    std::uint64_t round_ = 0;
};

// predictions: of rank 0, or null.
void run_table(const Options& options, const Device* device, hkt_comm* comm, Method method, hkt_type type,
               hkt_op op, int root, Predictions* predictions, Report& report) {
    const int rank = hkt_comm_rank(comm), ranks = hkt_comm_size(comm);
    std::deque<Runner> runners;
    for (hkt_executor executor : options.executors) {
        const Runner& runner = runners.emplace_back(comm, options, type, op, root, executor);
        if (options.verbose && rank == 0 && !runner.steps().empty()) tools::say("{}", runner.steps());
    }
    Bench bench(options, device, comm, method);
    for (const Layout& layout :
         layouts_for(options.subject, type, op, root, rank, ranks, sizes_of(options))) {
        const auto out_of_place = bench.measure(layout, runners, false);
        std::vector<Measurement> in_place;
        if (layout.subject.has_in_place() && !options.predict)
            in_place = bench.measure(layout, runners, true);
        for (std::size_t r = 0; r < runners.size(); ++r) {
            Row row{layout, options.executors[r], runners[r].schedule(layout), out_of_place[r],
                    in_place.empty() ? std::nullopt : std::optional(in_place[r])};
            // A plan's name for its schedule has no file.
            const std::string& schedule = options.schedule.empty() ? row.schedule : options.schedule;
            if (options.predict)
                on_rank_0(comm, [&] { row.predicted_us = predictions->microseconds(layout, schedule); });
            report.add(row);
        }
    }
}

std::string host_name() {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return name;
}

// Throws if the requested schedule does not exist for the collective.
std::string usual_schedule(const Options& options, hkt_comm* comm, int root) {
    const auto [type, op] = pairs_of(options)[0];
    return Runner(comm, options, type, op, root, options.executors[0]).usual_schedule();
}

Report::About describe(const Options& options, hkt_comm* comm, Method method, const std::string& schedule) {
    return {hkt_version(),
            host_name(),
            info(comm, "provider"),
            info(comm, "provider_why"),
            info(comm, "topology"),
            info(comm, "links"),
            schedule,
            options.executors.size() > 1 ? "both" : name_of(options.executors[0]),
            hkt_comm_size(comm),
            std::thread::hardware_concurrency(),
            method};
}

// Rank 0 opens it before anything is measured; if it cannot, all ranks fail.
std::unique_ptr<OutputFile> open_json(const std::string& file, hkt_comm* comm) {
    std::unique_ptr<OutputFile> stream;
    const bool writes = hkt_comm_rank(comm) == 0 && !file.empty();
    std::string reason;
    try {
        if (writes) stream = std::make_unique<OutputFile>(file);
    } catch (const std::runtime_error& error) {
        reason = std::string(": ") + error.what();
    }
    if (!all_agree(comm, !writes || stream))
        throw std::runtime_error(fmt::format("rank 0 cannot write '{}'{}", file, reason));
    return stream;
}

int run(Options options) {
    const auto device = options.memory == MemoryKind::device ? std::make_unique<Device>() : nullptr;
    const Comm comm = join(options);
    const int ranks = hkt_comm_size(comm.get());
    const bool speaks = hkt_comm_rank(comm.get()) == 0;
    if (options.root < -1 || options.root >= ranks)
        throw std::runtime_error(fmt::format("root {} is not one of the {} ranks", options.root, ranks));
    // The report names the executor chosen by HOCKET_EXECUTOR.
    if (options.executors[0] == HKT_EXECUTOR_DEFAULT && std::getenv("HOCKET_EXECUTOR") != nullptr)
        options.executors[0] =
            info(comm.get(), "executor") == "jit" ? HKT_EXECUTOR_JIT : HKT_EXECUTOR_INTERPRETER;
    const int first_root = std::max(options.root, 0);
    // Comes before anything is started: a schedule that does not exist is refused at once.
    const std::string schedule = usual_schedule(options, comm.get(), first_root);
    const auto json = open_json(options.json_file, comm.get());
    std::optional<Predictions> predictions;
    if (options.predict)
        on_rank_0(comm.get(), [&] { predictions.emplace(comm.get(), options.network, options.parameters); });
    const Method method =
        options.back_to_back || !share_clock(comm.get()) ? Method::back_to_back : Method::span;
    const bool all_roots = options.subject.contract().has_root() && options.root == -1;
    Report report(options, describe(options, comm.get(), method, schedule), speaks);
    report.print_header();
    for (const auto& [type, op] : pairs_of(options))
        for (int root = first_root; root < (all_roots ? ranks : first_root + 1); ++root)
            run_table(options, device.get(), comm.get(), method, type, op, root,
                      predictions ? &*predictions : nullptr, report);
    if (report.empty())
        throw std::runtime_error(
            fmt::format("no size up to {} B has an element for each of the {} ranks: "
                        "raise --maxbytes, or begin at 0",
                        options.max_bytes, ranks));
    report.print_footer();
    const bool tells = options.verbose && hkt_comm_rank(comm.get()) == 0;
    if (const std::string lost = info(comm.get(), "lost_rails"); tells && !lost.empty())
        fmt::print("# {}\n", lost);
    if (json) report.write_json(*json);
    return report.wrong() == 0 && report.out_of_bounds() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace hocket::bench

int main(int argc, char** argv) {
    const char* rank = std::getenv("RANK");
    const bool quiet = rank != nullptr && std::atoi(rank) != 0;
    return hocket::tools::run_tool("hocket-bench", [&] {
        int exit_code = 0;
        if (argc > 1 && hocket::bench::find_kernel(argv[1])) {
            const auto options = hocket::bench::parse_kernel_options(argc, argv, exit_code);
            return options ? hocket::bench::run_kernel_bench(*options) : exit_code;
        }
        const auto options = hocket::bench::parse_options(argc, argv, quiet, exit_code);
        return options ? hocket::bench::run(*options) : exit_code;
    });
}
