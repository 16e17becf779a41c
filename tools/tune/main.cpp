// hocket-tune: measures all schedules that a job of this shape can choose from, and writes down which is the
// fastest for which sizes; or the levels of its topology. It measures through the public C ABI only.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>

#include "capi/vocabulary.hpp"
#include "dsl/planning/choose.hpp"
#include "dsl/planning/compile.hpp"
#include "runtime/engine/job/options.hpp"
#include "runtime/engine/job/tuning.hpp"
#include "tools/bench/comm.hpp"
#include "tools/bench/data.hpp"
#include "tools/bench/options.hpp"
#include "tools/bench/time.hpp"
#include "tools/tool.hpp"
#include "tools/tune/options.hpp"
#include "tools/tune/race.hpp"
#include "tools/tune/topology.hpp"

namespace hocket::tune {
namespace {

using bench::check;

// The estimate's choice stays unless another schedule is faster by more than the usual variation between
// runs.
constexpr double worth_it = 0.95;

// The result for one size.
struct Result {
    std::size_t bytes;  // of x
    std::string fastest, estimated;
    double fastest_us, estimated_us;
};

// A measured size stands for the sizes that are nearer to it, by ratio, than to the next one; at both ends
// for an equally wide range.
std::vector<engine::TunedRange> ranges_of(const std::vector<Result>& results, std::size_t factor) {
    std::vector<engine::TunedRange> ranges;
    const auto between = [](double a, double b) { return static_cast<std::uint64_t>(std::sqrt(a * b)); };
    for (std::size_t i = 0; i < results.size(); ++i) {
        const double bytes = static_cast<double>(results[i].bytes), step = static_cast<double>(factor);
        const auto from = i == 0 ? between(bytes, bytes / step) : ranges.back().up_to;
        const double next = i + 1 < results.size() ? static_cast<double>(results[i + 1].bytes) : bytes * step;
        ranges.push_back(
            {from + 1, between(bytes, next), results[i].bytes, results[i].fastest_us, results[i].fastest});
    }
    return ranges;
}

class Tuner {
  public:
    Tuner(const Options& options, hkt_comm* comm)
        : options_(options),
          comm_(comm),
          speaks_(hkt_comm_rank(comm) == 0),
          method_(bench::share_clock(comm) ? bench::Method::span : bench::Method::back_to_back),
          library_(bench::schedule_folders(comm)),
          topology_(dsl::find_topology(library_, bench::info(comm, "topology"), hkt_comm_size(comm))) {}

    engine::Tuning measure_all() {
        engine::Tuning tuning;
        std::size_t cells = 0;
        for (const hkt_collective collective : options_.collectives) cells += layouts(collective).size();
        if (cells == 0)
            throw std::runtime_error(
                fmt::format("no size up to {} B has an element for each of the {} ranks: raise --maxbytes",
                            options_.max_bytes, hkt_comm_size(comm_)));
        for (const hkt_collective collective : options_.collectives) {
            if (layouts(collective).empty()) continue;
            const auto results = measure(collective, options_.seconds / static_cast<double>(cells));
            tuning[as_dsl(collective)] = ranges_of(results, options_.factor);
        }
        return tuning;
    }

  private:
    static dsl::Collective as_dsl(hkt_collective collective) {
        return capi::find_collective(collective).value();
    }

    std::vector<bench::Layout> layouts(hkt_collective collective) const {
        return bench::layouts_for(collective, HKT_FLOAT32, HKT_SUM, 0, hkt_comm_rank(comm_),
                                  hkt_comm_size(comm_), sizes_of(options_));
    }

    std::vector<Result> measure(hkt_collective collective, double seconds) {
        print_header(collective);
        std::map<std::string, bench::Plan> plans;
        std::vector<Result> results;
        for (const bench::Layout& layout : layouts(collective)) {
            results.push_back(measure(layout, plans, seconds));
            print(results.back());
        }
        return results;
    }

    Result measure(const bench::Layout& layout, std::map<std::string, bench::Plan>& plans, double seconds) {
        const std::size_t bytes = layout.larger_bytes();
        const auto names =
            dsl::candidate_names(library_, topology_, as_dsl(layout.subject.collective), layout.root, bytes);
        if (names.empty())
            throw std::runtime_error(fmt::format("no schedule of the library runs {} on topology {}",
                                                 layout.subject.name(), topology_.name));
        std::vector<hkt_plan*> entrants;
        for (const std::string& name : names) entrants.push_back(plan_for(layout, name, plans));
        const auto send = memory(layout.send_count()), recv = memory(layout.recv_count());
        const auto run = [&](int place) {
            check(hkt_plan_start(entrants[place], send.get(), recv.get(), layout.count, nullptr), comm_,
                  names[place].c_str());
        };
        const auto times = race(comm_, method_, static_cast<int>(names.size()), seconds, run);
        auto best = std::min_element(times.begin(), times.end()) - times.begin();
        if (times[best] > worth_it * times[0]) best = 0;
        return {bytes, names[best], names[0], times[best], times[0]};
    }

    // Makes the plan for this size before it is timed.
    hkt_plan* plan_for(const bench::Layout& layout, const std::string& name,
                       std::map<std::string, bench::Plan>& plans) {
        bench::Plan& plan = plans[name];
        if (!plan) {
            bench::Options choice;
            choice.subject = layout.subject;
            choice.schedule = name;
            plan = bench::make_plan(comm_, choice, layout.type, layout.op, layout.root, HKT_EXECUTOR_DEFAULT);
        }
        if (*hkt_plan_schedule(plan.get(), layout.count) == '\0')
            throw std::runtime_error(
                fmt::format("there is no plan of {} for {} B", name, layout.larger_bytes()));
        return plan.get();
    }

    std::shared_ptr<void> memory(std::size_t elements) const {
        const std::size_t bytes = elements * sizeof(float);
        auto buffer = bench::shared_memory(comm_)(bytes).host;
        if (buffer) std::memset(buffer.get(), 0, bytes);  // touches its pages
        return buffer;
    }

    void print_header(hkt_collective collective) const {
        if (!speaks_) return;
        fmt::print("# {}\n", hkt_collective_name(collective));
        fmt::print("#{:>11}  {:14} {:>9}   {:14} {:>9}  {:>6}\n", "bytes", "fastest", "us", "estimated", "us",
                   "ratio");
    }

    void print(const Result& result) const {
        if (!speaks_) return;
        fmt::print("{:12}  {:14} {:9.1f}   {:14} {:9.1f}  {:6.2f}\n", result.bytes, result.fastest,
                   result.fastest_us, result.estimated, result.estimated_us,
                   result.estimated_us / result.fastest_us);
        tools::flush_output();
    }

    const Options& options_;
    hkt_comm* comm_;
    const bool speaks_;
    const bench::Method method_;
    dsl::Library library_;
    dsl::Topology topology_;
};

// Results in the file are kept, so it must be a table. It is written once now, so that an unwritable file is
// noticed before the measurement.
engine::TuningTable table_in(const std::string& file) {
    try {
        return engine::read_tuning(file).value_or(engine::TuningTable());
    } catch (const std::exception& error) {
        throw std::runtime_error(
            fmt::format("{} is not a tuning table to add to: {}; remove it, or name another file with -o",
                        file, error.what()));
    }
}

bench::Comm join() {
    bench::Comm comm = bench::join({});
    if (hkt_comm_size(comm.get()) == 1)
        throw std::runtime_error("one rank has nothing to measure: start this with hocket-run -n N");
    return comm;
}

int run_table(Options options) {
    if (options.file.empty()) options.file = engine::resolve({}).tuning;
    setenv("HOCKET_TUNING", "off", 1);  // this job must not use the table that it makes
    const bench::Comm comm = join();
    const int ranks = hkt_comm_size(comm.get());
    bench::on_rank_0(comm.get(), [&] {
        if (options.file.empty())
            throw std::runtime_error("there is no HOME to write the table in: name a file with -o");
        engine::write_tuning(options.file, table_in(options.file));
    });
    const engine::JobShape shape{bench::info(comm.get(), "topology"), bench::info(comm.get(), "provider"),
                                 ranks};
    const bool speaks = hkt_comm_rank(comm.get()) == 0;
    if (speaks)
        fmt::print("# hocket-tune {}: {} ranks, topology {}, provider {}; about {:.0f} s, float32\n",
                   hkt_version(), ranks, shape.topology, shape.provider, options.seconds);
    const engine::Tuning tuning = Tuner(options, comm.get()).measure_all();
    bench::on_rank_0(comm.get(), [&] {
        engine::TuningTable table = table_in(options.file);
        merge(table, {{shape, tuning}});
        engine::write_tuning(options.file, table);
    });
    if (speaks) fmt::print("# written to {}\n", options.file);
    return 0;
}

int run(const Options& options) {
    if (options.topology_file.empty()) return run_table(options);
    measure_topology(join().get(), options.topology_file, options.seconds);
    return 0;
}

}  // namespace
}  // namespace hocket::tune

int main(int argc, char** argv) {
    const char* rank = std::getenv("RANK");
    const bool quiet = rank != nullptr && std::atoi(rank) != 0;
    return hocket::tools::run_tool("hocket-tune", [&] {
        int exit_code = 0;
        const auto options = hocket::tune::parse_options(argc, argv, quiet, exit_code);
        return options ? hocket::tune::run(*options) : exit_code;
    });
}
