#include "tools/schedc/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/quantities.hpp"
#include "dsl/planning/compile.hpp"
#include "dsl/planning/estimate.hpp"
#include "dsl/planning/predictable.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;

constexpr std::size_t most_points = 10000;  // of a sweep

// What a sweep keeps from one size to the next, of one schedule on one number of ranks: most sizes share it.
class SweptSchedule {
  public:
    // All references must outlive it.
    SweptSchedule(const PredictRequest& request, const std::string& schedule, Planner& planner)
        : request_(request), schedule_(schedule), planner_(planner) {}

    // Returns nothing, and notes why, if the schedule does not run on these ranks.
    std::optional<SweptPoint> predict(Rank ranks, double bytes, std::exception_ptr& why) {
        const PlanRequest plan = plan_request(request_, schedule_, ranks, bytes);
        // Also a named schedule may choose algorithms by the size.
        std::optional<ScheduleToPredict> next;
        try {
            next = planner_.to_predict(
                plan, [&](const Topology& topology) { return network_of(topology); }, WhoseSteps::by_size);
        } catch (const DiagnosticError&) {
            if (!why) why = std::current_exception();
            return std::nullopt;
        }
        take(std::move(*next), plan.deadline);
        const Prediction prediction = laid_out_->predict(bytes, plan.deadline);
        const ScheduleToPredict& schedule = laid_out_->schedule();
        return SweptPoint{schedule.name, schedule.topology.name, schedule.topology.ranks(),
                          bytes,         prediction.seconds,     prediction.latency};
    }

    // The schedule of the last size; null before the first.
    const ScheduleToPredict* schedule() const { return laid_out_ ? &laid_out_->schedule() : nullptr; }

  private:
    // Sizes of one schedule share the network.
    std::shared_ptr<const Network> network_of(const Topology& topology) const {
        if (laid_out_ && laid_out_->schedule().topology.name == topology.name)
            return laid_out_->schedule().network;
        return std::make_shared<const Network>(
            find_network(with_ranks(request_.network, topology.ranks()), topology));
    }

    void take(ScheduleToPredict next, const Deadline& deadline) {
        if (laid_out_ && next.fingerprint == laid_out_->schedule().fingerprint) return;
        laid_out_.reset();
        laid_out_.emplace(std::move(next), options_of(request_, deadline));
    }

    const PredictRequest& request_;
    const std::string& schedule_;
    Planner& planner_;
    std::optional<PredictableSchedule> laid_out_;
};

Sweep sweep_of(const PredictRequest& request) {
    Sweep sweep = parse_sweep(request.sweep);
    if (sweep.bytes.empty() && request.bytes == 0)
        throw NotFoundError("the size is missing: --bytes 64M, or --sweep bytes=1K..1G");
    if (!sweep.bytes.empty() && request.bytes > 0)
        throw DiagnosticError(Span(), "both --bytes and a sweep over bytes", "leave one of them out");
    if (!sweep.ranks.empty() && request.ranks > 0)
        throw DiagnosticError(Span(), "both --ranks and a sweep over ranks", "leave one of them out");
    if (sweep.bytes.empty()) sweep.bytes = {static_cast<double>(request.bytes)};
    if (!sweep.ranks.empty() && !request.topology.empty() && request.topology.find('%') == std::string::npos)
        throw DiagnosticError(
            Span(), fmt::format("sweep over ranks: topology {} has one number of ranks", request.topology),
            "write % for the number: --topology 8x%; or leave the topology out");
    if (sweep.ranks.empty()) sweep.ranks = {0};
    return sweep;
}

// The points of one schedule: a column of the table.
class Column {
  public:
    Column(const PredictRequest& request, const std::string& schedule, Planner& planner)
        : request_(request), schedule_(schedule), planner_(planner), name_(schedule) {}

    const std::string& name() const { return name_; }

    // Predicts each size. Numbers of ranks that the schedule does not run on are left out.
    std::vector<std::optional<SweptPoint>> predict(Rank ranks, const std::vector<double>& sizes) {
        std::vector<std::optional<SweptPoint>> points;
        SweptSchedule swept(request_, schedule_, planner_);
        for (const double bytes : sizes) {
            if (request_.waiting) request_.waiting->begin_point();
            points.push_back(swept.predict(ranks, bytes, fault_));
            if (!points.back()) continue;
            has_points_ = true;
            if (!schedule_.empty()) name_ = points.back()->schedule;
            unknown_parameters_ = swept.schedule()->unknown_parameters;
            for (const std::string& name : swept.schedule()->missing_densities)
                missing_densities_.insert(name);
        }
        return points;
    }
    const std::vector<std::string>& unknown_parameters() const { return unknown_parameters_; }
    const std::set<std::string>& missing_densities() const { return missing_densities_; }
    void throw_if_empty() const {
        if (!has_points_ && fault_) std::rethrow_exception(fault_);
    }

  private:
    const PredictRequest& request_;
    const std::string& schedule_;
    Planner& planner_;
    std::string name_;
    std::vector<std::string> unknown_parameters_;  // that are given, and it does not take
    std::set<std::string> missing_densities_;
    bool has_points_ = false;
    std::exception_ptr fault_;  // the first
};

std::string row_of_one(const SweptPoint& point) {
    return fmt::format("{:>8}  {:>10}  {:>12}  {:>6.1f} %  {}\n", point.ranks, text_of_size(point.bytes),
                       text_of_time(point.seconds),
                       point.seconds > 0 ? 100 * point.latency / point.seconds : 0, point.schedule);
}

// A column for each schedule.
std::string table_of(const SweptTable& table) {
    if (table.schedules.size() == 1) {
        std::string text = fmt::format("{:>8}  {:>10}  {:>12}  {:>8}  {}\n", "ranks", "bytes", "time",
                                       "latency", "schedule");
        for (const auto& row : table.rows)
            if (row[0]) text += row_of_one(*row[0]);
        return text;
    }
    std::string text = fmt::format("{:>8}  {:>10}", "ranks", "bytes");
    const auto width_of = [&](std::size_t column) {
        return std::max<std::size_t>(table.schedules[column].size(), 10);
    };
    for (std::size_t i = 0; i < table.schedules.size(); ++i)
        text += fmt::format("  {:>{}}", table.schedules[i], width_of(i));
    for (const auto& row : table.rows) {
        const auto known = std::find_if(row.begin(), row.end(), [](const auto& point) { return !!point; });
        if (known == row.end()) continue;
        text += fmt::format("\n{:>8}  {:>10}", (*known)->ranks, text_of_size((*known)->bytes));
        for (std::size_t i = 0; i < row.size(); ++i)
            text += fmt::format("  {:>{}}", row[i] ? text_of_time(row[i]->seconds) : "-", width_of(i));
    }
    return text + "\n";
}

std::string csv_of(const SweptTable& table) {
    std::string csv = "schedule,topology,ranks,bytes,seconds,latency\n";
    for (const auto& row : table.rows)
        for (const auto& point : row)
            if (point)
                csv += fmt::format("\"{}\",\"{}\",{},{:.0f},{},{}\n", point->schedule, point->topology,
                                   point->ranks, point->bytes, point->seconds, point->latency);
    return csv;
}

// Predicts each size for each number of ranks. A schedule that isn't named is chosen for each.
SweptTable predict_all(const PredictRequest& request, const Sweep& sweep) {
    const std::vector<std::string> asked =
        request.schedules.empty() ? std::vector<std::string>{""} : request.schedules;
    Planner planner;
    std::vector<Column> columns;
    for (const std::string& schedule : asked) columns.emplace_back(request, schedule, planner);
    if (request.waiting) request.waiting->expect(columns.size() * sweep.ranks.size() * sweep.bytes.size());
    SweptTable table;
    for (const Rank ranks : sweep.ranks) {
        const std::size_t first = table.rows.size();
        table.rows.resize(first + sweep.bytes.size());
        for (Column& column : columns) {
            const auto points = column.predict(ranks, sweep.bytes);
            for (std::size_t i = 0; i < points.size(); ++i) table.rows[first + i].push_back(points[i]);
        }
    }
    for (const Column& column : columns) {
        column.throw_if_empty();
        table.schedules.push_back(column.name());
        table.missing_densities.insert(column.missing_densities().begin(), column.missing_densities().end());
    }
    for (const auto& [name, value] : request.parameters)
        if (std::ranges::all_of(columns, [&, &wanted = name](const Column& column) {
                return std::ranges::count(column.unknown_parameters(), wanted) > 0;
            }))
            throw NotFoundError(fmt::format("no schedule of the sweep takes a number '{}' at a start", name));
    return table;
}

}  // namespace

int run_sweep(const PredictRequest& request) {
    const SweptTable table = predict_all(request, sweep_of(request));
    if (request.waiting) request.waiting->end();
    fmt::print("{}", table_of(table));
    for (const std::string& name : table.missing_densities) fmt::print("{}", missing_density_text(name));
    if (!request.csv.empty()) write_result(request.csv, csv_of(table));
    if (!request.svg.empty()) write_result(request.svg, curves_picture(table));
    return 0;
}

Sweep parse_sweep(const std::string& text) {
    const SourceFile file{"<sweep>", text};
    const auto span = [&](std::size_t begin, std::size_t end) {
        return Span{&file, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
    };
    constexpr const char* hint = "a sweep is like bytes=1K..1G, ranks=2..64, or both with a comma between";
    Sweep sweep;
    for (std::size_t begin = 0, end = 0; begin <= text.size(); begin = end + 1) {
        end = std::min(text.find(',', begin), text.size());
        const Span part = span(begin, end);
        const std::size_t equals = std::min(text.find('=', begin), end);
        const std::string what = text.substr(begin, equals - begin);
        if (equals == end || (what != "bytes" && what != "ranks"))
            throw DiagnosticError(part, fmt::format("'{}' is unknown", part.text()), hint);
        if (what == "bytes" ? !sweep.bytes.empty() : !sweep.ranks.empty())
            throw DiagnosticError(part, fmt::format("{} are given twice", what), hint);
        const std::size_t dots = std::min(text.find("..", equals), end);
        if (dots == end && part.text().find_first_of("-:") != std::string_view::npos)
            throw DiagnosticError(part, "this is no range of a sweep", hint);
        const std::uint64_t first = quantity_at(span(equals + 1, dots), parse_size);
        const std::uint64_t last = dots == end ? first : quantity_at(span(dots + 2, end), parse_size);
        const std::uint64_t most = what == "ranks" ? most_ranks : last;
        if (first == 0 || last < first || last > most)
            throw DiagnosticError(
                part, fmt::format("{} from {} to {}", what, first, last),
                fmt::format("the first is at least 1, and the last not below it{}",
                            what == "ranks" ? fmt::format(", nor above {}", most_ranks) : ""));
        for (std::uint64_t value = first; value <= last; value *= 2) {
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

}  // namespace hocket::tools
