#include "tools/hocket_bench_report.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace hocket::bench {
namespace {

constexpr std::size_t large_size = 64 << 10;  // from here on local work shows beside latency
constexpr const char* statistic =
    "median over the iterations of the slowest rank's time; each iteration starts at a barrier";

const char* op_name(const Layout& layout) {
    return has_op(layout.collective) ? name_of(layout.op) : "none";
}
int root_of(const Layout& layout) {
    return has_root(layout.collective) ? layout.root : -1;
}

// nccl-tests keeps seven characters.
std::string time_text(double us) {
    return us >= 10000 ? fmt::format("{:7.0f}", us)
           : us >= 100 ? fmt::format("{:7.1f}", us)
                       : fmt::format("{:7.2f}", us);
}

std::string columns(const Layout& layout, const Measurement& m, bool checked) {
    return fmt::format("  {:>7}  {:6.2f}  {:6.2f}  {:>5}", time_text(m.time_us),
                       algorithm_bandwidth(layout, m.time_us), bus_bandwidth(layout, m.time_us),
                       checked ? std::to_string(m.wrong) : "N/A");
}

nlohmann::ordered_json json_of(const Layout& layout, const Measurement& m, bool checked) {
    nlohmann::ordered_json json{{"time_us", m.time_us},
                                {"fastest_us", m.fastest_us},
                                {"algbw_gbs", algorithm_bandwidth(layout, m.time_us)},
                                {"busbw_gbs", bus_bandwidth(layout, m.time_us)}};
    json["wrong"] = checked ? nlohmann::ordered_json(m.wrong) : nullptr;
    json["out_of_bounds"] = checked ? nlohmann::ordered_json(m.out_of_bounds) : nullptr;
    return json;
}

}  // namespace

double algorithm_bandwidth(const Layout& layout, double time_us) {
    return time_us > 0 ? layout.larger_bytes() / time_us * 1e-3 : 0;
}

double bus_bandwidth(const Layout& layout, double time_us) {
    const double others = (layout.ranks - 1.0) / layout.ranks;
    const double factor = layout.collective == HKT_ALL_REDUCE  ? 2 * others
                          : layout.collective == HKT_BROADCAST ? 1
                                                               : others;
    return factor * algorithm_bandwidth(layout, time_us);
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void Report::print_header() const {
    if (!speaks_) return;
    fmt::print("# hocket-bench {}: {}, {} rank{} on {}\n", about_.version, name_of(options_.collective),
               about_.ranks, about_.ranks == 1 ? "" : "s", about_.host);
    fmt::print("# provider {}, topology {}, schedule {}, executor {}\n", about_.provider, about_.topology,
               about_.schedule, about_.executor);
    fmt::print("# {} iterations after {} to warm up; time: {}\n#\n", options_.iterations, options_.warmup,
               statistic);
    fmt::print("#{:61}{:^32}{:^32}\n", "", "out-of-place", "in-place");
    fmt::print("#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop", "root");
    for (int way = 0; way < 2; ++way)
        fmt::print("  {:>7}  {:>6}  {:>6} {:>6}", "time", "algbw", "busbw", "#wrong");
    fmt::print("\n#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
    for (int way = 0; way < 2; ++way)
        fmt::print("  {:>7}  {:>6}  {:>6} {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
    fmt::print("\n");
    std::fflush(stdout);
}

void Report::add(const Row& row) {
    rows_.push_back(row);
    if (!speaks_) return;
    const Layout& layout = row.layout;
    fmt::print("{:12}  {:12}  {:>8}  {:>6}  {:6}", layout.larger_bytes(), layout.count, name_of(layout.type),
               op_name(layout), root_of(layout));
    for (const Measurement& way : {row.out_of_place, row.in_place})
        fmt::print("{}", columns(layout, way, options_.check));
    fmt::print("{}\n", options_.executors.size() > 1 ? fmt::format("  # {}", name_of(row.executor)) : "");
    std::fflush(stdout);
}

void Report::print_footer() const {
    if (!speaks_) return;
    if (options_.check)
        fmt::print("# Out of bounds values : {} {}\n", out_of_bounds(),
                   out_of_bounds() == 0 ? "OK" : "FAILED");
    fmt::print("# Avg bus bandwidth    : {:g}\n", average_bus_bandwidth());
    if (options_.executors.size() > 1) {
        const Comparison comparison = compare_executors();
        fmt::print("# JIT / interpreter    : {:.3f} of the time (median of {} size{} from {} B)\n",
                   comparison.ratio, comparison.sizes, comparison.sizes == 1 ? "" : "s",
                   comparison.from_bytes);
    }
    fmt::print("#\n");
    std::fflush(stdout);
}

std::int64_t Report::wrong() const {
    std::int64_t sum = 0;
    for (const Row& row : rows_) sum += row.out_of_place.wrong + row.in_place.wrong;
    return sum;
}

std::int64_t Report::out_of_bounds() const {
    std::int64_t sum = 0;
    for (const Row& row : rows_) sum += row.out_of_place.out_of_bounds + row.in_place.out_of_bounds;
    return sum;
}

double Report::average_bus_bandwidth() const {
    double sum = 0;
    for (const Row& row : rows_)
        for (const Measurement& way : {row.out_of_place, row.in_place})
            sum += bus_bandwidth(row.layout, way.time_us);
    return rows_.empty() ? 0 : sum / (2 * rows_.size());
}

// Rows come in pairs: the JIT's, then the interpreter's of the same size.
Report::Comparison Report::compare_executors() const {
    const bool any_large = std::any_of(
        rows_.begin(), rows_.end(), [](const Row& row) { return row.layout.larger_bytes() >= large_size; });
    const std::size_t from = any_large ? large_size : 0;
    std::vector<double> ratios;
    for (std::size_t i = 0; i + 1 < rows_.size(); i += 2) {
        const Row &jit = rows_[i], &interpreter = rows_[i + 1];
        if (jit.layout.larger_bytes() < from) continue;
        ratios.push_back((jit.out_of_place.time_us + jit.in_place.time_us) /
                         (interpreter.out_of_place.time_us + interpreter.in_place.time_us));
    }
    return {median(ratios), ratios.size(), from};
}

void Report::write_json(const std::string& file) const {
    nlohmann::ordered_json json{
        {"program", "hocket-bench"},
        {"version", about_.version},
        {"date", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
        {"host", about_.host},
        {"collective", name_of(options_.collective)},
        {"ranks", about_.ranks},
        {"provider", about_.provider},
        {"topology", about_.topology},
        {"schedule", about_.schedule},
        {"executor", about_.executor},
        {"iterations", options_.iterations},
        {"warmup", options_.warmup},
        {"statistic", statistic}};
    json["rows"] = nlohmann::ordered_json::array();
    for (const Row& row : rows_)
        json["rows"].push_back({{"size_bytes", row.layout.larger_bytes()},
                                {"count", row.layout.count},
                                {"type", name_of(row.layout.type)},
                                {"redop", op_name(row.layout)},
                                {"root", root_of(row.layout)},
                                {"executor", name_of(row.executor)},
                                {"out_of_place", json_of(row.layout, row.out_of_place, options_.check)},
                                {"in_place", json_of(row.layout, row.in_place, options_.check)}});
    if (options_.check) {
        json["wrong"] = wrong();
        json["out_of_bounds"] = out_of_bounds();
    }
    json["avg_busbw_gbs"] = average_bus_bandwidth();
    if (options_.executors.size() > 1) {
        const Comparison comparison = compare_executors();
        json["jit_over_interpreter"] = {{"median_time_ratio", comparison.ratio},
                                        {"sizes", comparison.sizes},
                                        {"from_bytes", comparison.from_bytes}};
    }
    std::ofstream stream(file);
    stream << json.dump(2) << '\n';
    stream.close();
    if (!stream) throw std::runtime_error("cannot write '" + file + "': check that its folder exists");
}

}  // namespace hocket::bench
