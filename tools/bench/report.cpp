#include "tools/bench/report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <stdexcept>

#include "tools/bench/statistics.hpp"
#include "tools/tool.hpp"

namespace hocket::bench {
namespace {

constexpr std::size_t large_size = 64 << 10;  // from this size on, local work is significant beside latency

const char* statistic_of(Method method) {
    return method == Method::span ? "median of first rank's start to last rank's end, each after a barrier"
                                  : "slowest rank's mean of a loop without barriers";
}

const char* op_name(const Layout& layout) {
    return layout.contract().combines() ? hkt_op_name(layout.op) : "none";
}
int root_of(const Layout& layout) {
    return layout.contract().has_root() ? layout.root : -1;
}

// nccl-tests prints seven characters.
std::string time_text(double us) {
    return us >= 10000 ? fmt::format("{:7.0f}", us)
           : us >= 100 ? fmt::format("{:7.1f}", us)
                       : fmt::format("{:7.2f}", us);
}

std::string columns(const Layout& layout, const std::optional<Measurement>& m, bool checked) {
    if (!m) return fmt::format("  {0:>7}  {0:>6}  {0:>6}  {0:>5}", "N/A");
    const double time_us = m->timing.time_us;
    return fmt::format("  {:>7}  {:6.2f}  {:6.2f}  {:>5}", time_text(time_us),
                       algorithm_bandwidth(layout, time_us), bus_bandwidth(layout, time_us),
                       checked ? std::to_string(m->wrong) : "N/A");
}

nlohmann::ordered_json json_of(const Layout& layout, const std::optional<Measurement>& measured,
                               bool checked) {
    if (!measured) return nullptr;
    const Measurement& m = *measured;
    const auto& spans = m.timing.spans_us;
    const auto of_spans = [&](double value) {
        return spans.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
    };
    nlohmann::ordered_json json{{"time_us", m.timing.time_us},
                                {"min_us", of_spans(percentile(spans, 0))},
                                {"p50_us", of_spans(median(spans))},
                                {"p99_us", of_spans(percentile(spans, 99))},
                                {"start_skew_us", of_spans(m.timing.start_skew_us)},
                                {"algbw_gbs", algorithm_bandwidth(layout, m.timing.time_us)},
                                {"busbw_gbs", bus_bandwidth(layout, m.timing.time_us)}};
    json["wrong"] = checked ? nlohmann::ordered_json(m.wrong) : nullptr;
    json["out_of_bounds"] = checked ? nlohmann::ordered_json(m.out_of_bounds) : nullptr;
    return json;
}

// The predicted time, and its ratio to the measured one.
std::string prediction_columns(const Row& row) {
    if (!row.predicted_us) return "";
    return fmt::format("  {:>9}  {:5.2f}", time_text(*row.predicted_us),
                       *row.predicted_us / row.out_of_place.timing.time_us);
}

}  // namespace

std::vector<Measurement> Row::ways() const {
    std::vector<Measurement> ways{out_of_place};
    if (in_place) ways.push_back(*in_place);
    return ways;
}

double Row::time_us() const {
    double sum = 0;
    for (const Measurement& way : ways()) sum += way.timing.time_us;
    return sum;
}

double algorithm_bandwidth(const Layout& layout, double time_us) {
    return time_us > 0 ? static_cast<double>(layout.larger_bytes()) / time_us * 1e-3 : 0;
}

double bus_bandwidth(const Layout& layout, double time_us) {
    const double others = (layout.ranks - 1.0) / layout.ranks;
    const dsl::Contract& contract = layout.contract();
    // Data is collected, then distributed.
    const bool is_twofold = contract.combines() && !contract.has_root();
    const double factor = contract.is_by_rank() ? others : is_twofold ? 2 * others : 1;
    return factor * algorithm_bandwidth(layout, time_us);
}

void Report::print_header() const {
    if (!speaks_) return;
    fmt::print("# hocket-bench {}: {}, {} rank{} on {}\n", about_.version, options_.subject.name(),
               about_.ranks, about_.ranks == 1 ? "" : "s", about_.host);
    fmt::print("# provider {}, topology {}, schedule {}{}, executor {}, {} buffers\n", about_.provider,
               about_.topology, about_.schedule,
               options_.subject.has_plans() ? " at 1 MiB (-v tells for each size)" : "", about_.executor,
               name_of(options_.memory));
    if (options_.subject.has_counts())
        fmt::print("# the ranks' pieces are as 1 : 3 : 5 ..., size and count are of all of them together\n");
    if (options_.verbose && !about_.provider_why.empty()) fmt::print("# {}\n", about_.provider_why);
    if (options_.verbose && !about_.links.empty()) fmt::print("# links {}\n", about_.links);
    fmt::print("# {} iterations after {} to warm up; time: {}\n#\n", options_.iterations, options_.warmup,
               statistic_of(about_.method));
    fmt::print("#{:65}{:^32}{:^32}\n", "", "out-of-place", "in-place");
    fmt::print("#{:>11}  {:>12}  {:>8}  {:>10}  {:>6}", "size", "count", "type", "redop", "root");
    for (int way = 0; way < 2; ++way)
        fmt::print("  {:>7}  {:>6}  {:>6} {:>6}", "time", "algbw", "busbw", "#wrong");
    if (options_.predict) fmt::print("  {:>9}  {:>5}", "predicted", "ratio");
    fmt::print("\n#{:>11}  {:>12}  {:>8}  {:>10}  {:>6}", "(B)", "(elements)", "", "", "");
    for (int way = 0; way < 2; ++way)
        fmt::print("  {:>7}  {:>6}  {:>6} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
    if (options_.predict) fmt::print("  {:>9}", "(us)");
    fmt::print("\n");
    tools::flush_output();
}

void Report::add(const Row& row) {
    rows_.push_back(row);
    if (!speaks_) return;
    const Layout& layout = row.layout;
    fmt::print("{:12}  {:12}  {:>8}  {:>10}  {:6}", layout.larger_bytes(), layout.count,
               hkt_type_name(layout.type), op_name(layout), root_of(layout));
    fmt::print("{}{}{}{}\n", columns(layout, row.out_of_place, options_.check),
               columns(layout, row.in_place, options_.check), prediction_columns(row),
               options_.executors.size() > 1 ? fmt::format("  # {}", name_of(row.executor)) : "");
    if (!options_.verbose) return;
    std::istringstream lines(row.schedule);
    for (std::string line; std::getline(lines, line);) fmt::print("#   {}\n", line);
    tools::flush_output();
}

void Report::print_footer() const {
    if (!speaks_) return;
    if (options_.check)
        fmt::print("# Out of bounds values : {} {}\n", out_of_bounds(),
                   out_of_bounds() == 0 ? "OK" : "FAILED");
    if (options_.check && wrong() > 0)
        fmt::print(
            "# Wrong values         : {} FAILED (a schedule that selects, rounds or updates is not exact: -c "
            "0)\n",
            wrong());
    for (hkt_executor executor : options_.executors)
        fmt::print("# Avg bus bandwidth    : {:g}{}\n", average_bus_bandwidth(executor),
                   options_.executors.size() > 1 ? fmt::format("  # {}", name_of(executor)) : "");
    if (options_.executors.size() > 1) {
        const Comparison comparison = compare_executors();
        fmt::print("# JIT / interpreter    : {:.3f} of the time (median of {} size{} from {} B)\n",
                   comparison.ratio, comparison.sizes, comparison.sizes == 1 ? "" : "s",
                   comparison.from_bytes);
    }
    fmt::print("#\n");
    tools::flush_output();
}

std::int64_t Report::wrong() const {
    std::int64_t sum = 0;
    for (const Row& row : rows_)
        for (const Measurement& way : row.ways()) sum += way.wrong;
    return sum;
}

std::int64_t Report::out_of_bounds() const {
    std::int64_t sum = 0;
    for (const Row& row : rows_)
        for (const Measurement& way : row.ways()) sum += way.out_of_bounds;
    return sum;
}

double Report::average_bus_bandwidth(hkt_executor executor) const {
    double sum = 0;
    int count = 0;
    for (const Row& row : rows_) {
        if (row.executor != executor) continue;
        for (const Measurement& way : row.ways()) {
            sum += bus_bandwidth(row.layout, way.timing.time_us);
            ++count;
        }
    }
    return count == 0 ? 0 : sum / count;
}

// Rows come in pairs: first the JIT's, then the interpreter's of the same size.
Report::Comparison Report::compare_executors() const {
    const bool any_large = std::any_of(
        rows_.begin(), rows_.end(), [](const Row& row) { return row.layout.larger_bytes() >= large_size; });
    const std::size_t from = any_large ? large_size : 0;
    std::vector<double> ratios;
    for (std::size_t i = 0; i + 1 < rows_.size(); i += 2) {
        const Row &jit = rows_[i], &interpreter = rows_[i + 1];
        if (jit.layout.larger_bytes() < from) continue;
        ratios.push_back(jit.time_us() / interpreter.time_us());
    }
    return {median(ratios), ratios.size(), from};
}

void Report::write_json(std::ostream& stream) const {
    nlohmann::ordered_json json{
        {"program", "hocket-bench"},
        {"version", about_.version},
        {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
        {"host", about_.host},
        {"cores", about_.cores},
        {"collective", options_.subject.name()},
        {"ranks", about_.ranks},
        {"provider", about_.provider},
        {"topology", about_.topology},
        {"schedule", about_.schedule},
        {"executor", about_.executor},
        {"memory", name_of(options_.memory)},
        {"iterations", options_.iterations},
        {"warmup", options_.warmup},
        {"statistic", statistic_of(about_.method)}};
    json["rows"] = nlohmann::ordered_json::array();
    for (const Row& row : rows_) {
        json["rows"].push_back({{"size_bytes", row.layout.larger_bytes()},
                                {"count", row.layout.count},
                                {"type", hkt_type_name(row.layout.type)},
                                {"redop", op_name(row.layout)},
                                {"root", root_of(row.layout)},
                                {"executor", name_of(row.executor)},
                                {"schedule", row.schedule.substr(0, row.schedule.find('\n'))},
                                {"out_of_place", json_of(row.layout, row.out_of_place, options_.check)},
                                {"in_place", json_of(row.layout, row.in_place, options_.check)}});
        if (row.predicted_us) json["rows"].back()["predicted_us"] = *row.predicted_us;
    }
    if (options_.check) {
        json["wrong"] = wrong();
        json["out_of_bounds"] = out_of_bounds();
    }
    for (hkt_executor executor : options_.executors)
        json["avg_busbw_gbs"][name_of(executor)] = average_bus_bandwidth(executor);
    if (options_.executors.size() > 1) {
        const Comparison comparison = compare_executors();
        json["jit_over_interpreter"] = {{"median_time_ratio", comparison.ratio},
                                        {"sizes", comparison.sizes},
                                        {"from_bytes", comparison.from_bytes}};
    }
    stream << json.dump(2) << '\n' << std::flush;
    if (!stream) throw std::runtime_error("the JSON could not be written: check that its disk is not full");
}

}  // namespace hocket::bench
