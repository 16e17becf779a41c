#include "tools/schedc/predict.hpp"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/named_file.hpp"
#include "dsl/planning/compile.hpp"
#include "dsl/planning/estimate.hpp"
#include "runtime/base/error.hpp"
#include "tools/tool.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;

constexpr std::size_t most_points = 10000;  // of a sweep
constexpr std::size_t most_drawn = 200000;  // messages in a picture or a trace

std::int64_t amount_in(std::string_view text, const std::string& whole) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    const auto prefix = unit.empty() ? 0 : std::string_view(" KMGT").find(unit[0]);
    if (error != std::errc() || prefix == std::string_view::npos || prefix == unit.size() - 1 ||
        unit.size() > 1 || !(number >= 1) || number * std::pow(1024, prefix) >= 0x1p62)
        throw DiagnosticError(Span(), fmt::format("sweep '{}': '{}' is no amount", whole, text),
                              "amounts are like 8, 64K or 1G, from 1 on: bytes=1K..1G,ranks=2..64");
    return std::llround(number * std::pow(1024, prefix));
}

void write_result(const std::string& path, const std::string& text) try {
    OutputFile file(path);
    file << text;
    file.close();
    if (!file) throw std::runtime_error("not all of it could be written");
} catch (const std::runtime_error& error) {
    throw Error(Status::io, fmt::format("{}: {}", path, error.what()));
}

// The topology of this many ranks: each % in the text stands for the number.
std::string with_ranks(std::string text, Rank ranks) {
    for (std::size_t at = 0; (at = text.find('%', at)) != std::string::npos;)
        text.replace(at, 1, std::to_string(ranks));
    return text;
}

PlanRequest plan_request(const PredictRequest& request, Rank ranks, double bytes) {
    PlanRequest plan;
    plan.collective = request.collective.value_or(Collective::all_reduce);
    if (!request.collective) plan.collective = first_collective_of(request.schedule, request.search_path);
    plan.schedule = request.schedule;
    plan.topology = ranks > 0 ? with_ranks(request.topology, ranks) : request.topology;
    plan.search_path = request.search_path;
    plan.ranks = plan.topology.empty() || ranks == 0 ? std::max(ranks, request.ranks) : 0;
    plan.root = request.root;
    plan.bytes = static_cast<std::uint64_t>(bytes);
    plan.deadline = Deadline(std::chrono::duration<double>(request.timeout));
    if (plan.topology.empty() && plan.ranks == 0)
        throw NotFoundError(
            "the number of ranks is missing: give --topology (levels, innermost first: 2x3) or --ranks");
    return plan;
}

PredictOptions options_of(const PredictRequest& request, const Deadline& deadline) {
    return {request.ideal, !request.timeline.empty() || !request.trace.empty(), request.certify, deadline};
}

// What a sweep keeps from one size to the next: most sizes share a schedule.
class SweptSchedule {
  public:
    explicit SweptSchedule(const PredictRequest& request) : request_(request) {}

    Prediction predict(const PlanRequest& plan, double bytes) {
        if (!checked_ || request_.schedule.empty()) take(planner_.check(plan), plan.deadline);
        return predictor_->predict(bytes);
    }
    const CheckedSchedule& schedule() const { return *checked_; }
    // Another number of ranks follows.
    void forget() {
        predictor_.reset();
        checked_.reset();
    }

  private:
    void take(std::unique_ptr<CheckedSchedule> next, const Deadline& deadline) {
        if (checked_ && next->fingerprint() == checked_->fingerprint()) return;
        forget();
        checked_ = std::move(next);
        const Topology& topology = checked_->levels();
        network_ =
            std::make_unique<Network>(find_network(with_ranks(request_.network, topology.ranks()), topology));
        predictor_ =
            std::make_unique<Predictor>(checked_->graph(), *network_, options_of(request_, deadline));
    }

    const PredictRequest& request_;
    Planner planner_;
    std::unique_ptr<CheckedSchedule> checked_;
    std::unique_ptr<Network> network_;
    std::unique_ptr<Predictor> predictor_;
};

Sweep sweep_of(const PredictRequest& request) {
    Sweep sweep = parse_sweep(request.sweep);
    if (sweep.bytes.empty() && request.bytes == 0)
        throw NotFoundError("the size is missing: --bytes 64M, or --sweep bytes=1K..1G");
    if (sweep.bytes.empty()) sweep.bytes = {static_cast<double>(request.bytes)};
    if (!sweep.ranks.empty() && !request.topology.empty() && request.topology.find('%') == std::string::npos)
        throw DiagnosticError(
            Span(), fmt::format("sweep over ranks: topology {} has one number of ranks", request.topology),
            "write % for the number: --topology 8x%; or leave the topology out");
    if (sweep.ranks.empty()) sweep.ranks = {0};
    return sweep;
}

// Predicts each size for each number of ranks. A schedule that isn't named is chosen for each.
int run_sweep(const PredictRequest& request) {
    const Sweep sweep = sweep_of(request);
    SweptSchedule swept(request);
    std::string csv = "schedule,topology,ranks,bytes,seconds,latency\n";
    fmt::print("{:>8}  {:>10}  {:>12}  {:>8}  {}\n", "ranks", "bytes", "time", "latency", "schedule");
    for (const Rank given : sweep.ranks) {
        swept.forget();
        for (const double bytes : sweep.bytes) {
            const Prediction prediction = swept.predict(plan_request(request, given, bytes), bytes);
            const CheckedSchedule& schedule = swept.schedule();
            const Rank ranks = schedule.levels().ranks();
            fmt::print("{:>8}  {:>10}  {:>12}  {:>6.1f} %  {}\n", ranks, text_of_size(bytes),
                       seconds_text(prediction.seconds),
                       prediction.seconds > 0 ? 100 * prediction.latency / prediction.seconds : 0,
                       schedule.name());
            csv += fmt::format("\"{}\",\"{}\",{},{:.0f},{},{}\n", schedule.name(), schedule.topology(), ranks,
                               bytes, prediction.seconds, prediction.latency);
        }
    }
    if (!request.csv.empty()) write_result(request.csv, csv);
    return 0;
}

}  // namespace

Sweep parse_sweep(const std::string& text) {
    Sweep sweep;
    constexpr const char* hint = "a sweep is like bytes=1K..1G, ranks=2..64, or both with a comma between";
    for (std::size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
        end = std::min(text.find(',', begin), text.size());
        const std::string part = text.substr(begin, end - begin);
        const std::size_t equals = part.find('='), dots = part.find("..");
        const std::string what = part.substr(0, equals);
        if (equals == std::string::npos || (what != "bytes" && what != "ranks"))
            throw DiagnosticError(Span(), fmt::format("sweep '{}': '{}' is unknown", text, part), hint);
        const std::string_view values = std::string_view(part).substr(equals + 1);
        const std::size_t split = dots == std::string::npos ? values.size() : dots - equals - 1;
        const std::int64_t first = amount_in(values.substr(0, split), text);
        const std::int64_t last = split == values.size() ? first : amount_in(values.substr(split + 2), text);
        if (last < first || (what == "ranks" && last > most_ranks))
            throw DiagnosticError(Span(), fmt::format("sweep '{}': from {} to {}", text, first, last), hint);
        for (std::int64_t value = first; value <= last; value *= 2) {
            if (what == "bytes")
                sweep.bytes.push_back(static_cast<double>(value));
            else
                sweep.ranks.push_back(static_cast<Rank>(value));
        }
    }
    if (sweep.bytes.size() * std::max<std::size_t>(sweep.ranks.size(), 1) > most_points)
        throw DiagnosticError(Span(), fmt::format("a sweep of more than {} points", most_points));
    return sweep;
}

int run_predict(const PredictRequest& request) {
    if (!request.sweep.empty()) return run_sweep(request);
    if (request.bytes == 0) throw NotFoundError("the size is missing: --bytes 64M");
    const PlanRequest plan = plan_request(request, 0, static_cast<double>(request.bytes));
    const auto checked = check_schedule(plan);
    const Network network = find_network(request.network, checked->levels());
    const Prediction prediction = Predictor(checked->graph(), network, options_of(request, plan.deadline))
                                      .predict(static_cast<double>(request.bytes));
    const PredictedSchedule of{checked->name(), checked->topology(), static_cast<double>(request.bytes),
                               request.ideal};
    if (prediction.timeline.size() > most_drawn)
        throw DiagnosticError(
            Span(), fmt::format("{} messages are too many to show", prediction.timeline.size()),
            fmt::format("a timeline or trace has at most {}: take fewer ranks", most_drawn));
    if (!request.timeline.empty())
        write_result(request.timeline, timeline_picture(of, checked->graph(), prediction));
    if (!request.trace.empty()) write_result(request.trace, timeline_trace(checked->graph(), prediction));
    fmt::print("{}", request.json ? prediction_json(of, network, prediction) + "\n"
                                  : prediction_text(of, network, prediction));
    return 0;
}

}  // namespace hocket::tools
