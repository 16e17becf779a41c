// The texts of predictions.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "dsl/base/quantities.hpp"
#include "tools/schedc/predict.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;
using Json = nlohmann::ordered_json;

constexpr std::size_t most_rows = 12;  // of the table of lines

// The statement that a line stands for: the one that called an algorithm, if there was one.
Span statement_of(const StepOrigin& origin) {
    return origin.call.file ? origin.call : origin.transfer;
}

std::string shortened(std::string text, std::size_t most) {
    if (text.size() > most) text = text.substr(0, most - 3) + "...";
    return text;
}

double percent(double part, double whole) {
    return whole > 0 ? 100 * part / whole : 0;
}

std::string row(const PathShare& share, double seconds, const std::string& what) {
    return fmt::format("  {:>10}  {:>5.1f} %  {:>5.1f} %  {:>10}  {:>9}  {}\n", text_of_time(share.seconds),
                       percent(share.seconds, seconds), percent(share.latency, share.seconds),
                       text_of_size(share.bytes), share.messages, what);
}

std::string heading(const char* what) {
    return fmt::format("\n  {:>10}  {:>7}  {:>7}  {:>10}  {:>9}  {}\n", "time", "share", "latency", "bytes",
                       "messages", what);
}

template <typename Share>
std::vector<const Share*> by_time(const std::vector<Share>& shares) {
    std::vector<const Share*> sorted;
    for (const Share& share : shares)
        if (share.messages + share.calculations > 0) sorted.push_back(&share);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Share* a, const Share* b) { return a->seconds > b->seconds; });
    return sorted;
}

std::string lines_text(const Prediction& prediction) {
    const std::vector<const LineShare*> lines = by_time(prediction.lines);
    std::size_t widest = 0;
    std::string text = heading("source line");
    for (std::size_t i = 0; i < std::min(lines.size(), most_rows); ++i)
        widest = std::max(widest, location_of(statement_of(lines[i]->origin)).size());
    for (std::size_t i = 0; i < std::min(lines.size(), most_rows); ++i) {
        const StepOrigin& origin = lines[i]->origin;
        const std::string by = origin.call.file ? "  by " + location_of(origin.transfer) : "";
        text += row(*lines[i], prediction.seconds,
                    fmt::format("{:<{}}  {}{}", location_of(statement_of(origin)), widest,
                                shortened(folded_text(statement_of(origin)), 60), by));
    }
    if (lines.size() > most_rows)
        text += fmt::format("  and {} more (--json has all)\n", lines.size() - most_rows);
    return text;
}

std::string links_text(const Network& network, const Prediction& prediction) {
    if (prediction.links.empty() || prediction.seconds <= 0) return "";
    const double most = prediction.links[prediction.busiest].busy;
    const auto alike = std::count_if(prediction.links.begin(), prediction.links.end(),
                                     [&](const LinkUse& use) { return use.busy >= most * (1 - 1e-6); });
    const NetworkLink& link = network.links()[prediction.busiest];
    return fmt::format(
        "\nbottleneck: link {}, {:.1f} % used: {} at {:.4g} GB/s{}\n", link.name, 100 * most,
        text_of_size(prediction.links[prediction.busiest].bytes), link.rate / 1e9,
        alike > 1 ? fmt::format("; {} other{} as much", alike - 1, alike == 2 ? "" : "s") : "");
}

// "2x3", "2x3 and 4x6"
std::string joined(const std::vector<std::string>& names) {
    return fmt::format("{}", fmt::join(names, " and "));
}

Json share_json(const PathShare& share) {
    return {{"seconds", share.seconds},
            {"latency", share.latency},
            {"bytes", share.bytes},
            {"messages", share.messages},
            {"calculations", share.calculations}};
}

}  // namespace

std::string prediction_text(const PredictedSchedule& of, const Network& network,
                            const Prediction& prediction) {
    std::string text = fmt::format(
        "{} on {}{}, {} ranks, {}, {}\n{}: latency {:.1f} %, bytes {:.1f} %; {} messages{}\n", of.schedule,
        of.topology,
        network.spec().text.empty() ? ""
                                    : fmt::format(", network \"{}\"", shortened(network.spec().text, 60)),
        network.ranks(),
        text_of_size(of.bytes) +
            (of.type == DataType::float32 ? "" : fmt::format(" of {}", name_of(of.type))),
        of.ideal ? "ideal" : "calibrated", text_of_time(prediction.seconds),
        percent(prediction.latency, prediction.seconds),
        percent(prediction.seconds - prediction.latency, prediction.seconds), prediction.messages,
        prediction.calculations > 0 ? fmt::format(", {} calculations", prediction.calculations) : "");
    if (of.by_symmetry)
        text += fmt::format("by symmetry: rank 0 stands for all; proved {}\n",
                            of.proved_on == std::vector{of.topology} ? "so" : "on " + joined(of.proved_on));
    if (!of.why_in_full.empty()) text += fmt::format("in full: {}\n", of.why_in_full);
    for (const std::string& name : of.missing_densities) text += missing_density_text(name);
    if (prediction.messages + prediction.calculations == 0) return text;
    text += lines_text(prediction) + heading("level");
    for (const LevelShare& level : prediction.levels)
        if (level.messages + level.calculations > 0) text += row(level, prediction.seconds, level.name);
    return text + links_text(network, prediction);
}

std::string missing_density_text(const std::string& name) {
    return fmt::format("{0} is given at each start, and counts as 0.01: --parameter {0}=NUMBER\n", name);
}

std::string prediction_json(const PredictedSchedule& of, const Network& network,
                            const Prediction& prediction) {
    Json json = {{"schedule", of.schedule},
                 {"topology", of.topology},
                 {"network", network.spec().text},
                 {"ranks", network.ranks()},
                 {"switches", network.switches()},
                 {"bytes", of.bytes},
                 {"type", name_of(of.type)},
                 {"ideal", of.ideal},
                 {"seconds", prediction.seconds},
                 {"latency", prediction.latency},
                 {"messages", prediction.messages},
                 {"calculations", prediction.calculations},
                 {"by_symmetry", of.by_symmetry},
                 {"proved_on", of.by_symmetry ? of.proved_on : std::vector{of.topology}},
                 {"parameters", of.parameters},
                 {"assumed", of.missing_densities},
                 {"lines", Json::array()},
                 {"levels", Json::array()},
                 {"links", Json::array()}};
    for (const std::string& name : of.missing_densities) json["parameters"][name] = 0.01;
    for (const LineShare& line : prediction.lines) {
        Json entry = {{"line", location_of(statement_of(line.origin))},
                      {"text", folded_text(statement_of(line.origin))}};
        if (line.origin.call.file) entry["algorithm_line"] = location_of(line.origin.transfer);
        entry.update(share_json(line));
        json["lines"].push_back(entry);
    }
    for (const LevelShare& level : prediction.levels) {
        Json entry = {{"level", level.name}};
        entry.update(share_json(level));
        json["levels"].push_back(entry);
    }
    for (std::size_t i = 0; i < prediction.links.size(); ++i) {
        const LinkUse& use = prediction.links[i];
        const std::uint32_t alike = of.by_symmetry ? prediction.alike[i] : 1;
        if (!(use.bytes > 0) || alike == 0) continue;
        json["links"].push_back({{"link", network.links()[i].name},
                                 {"kind", name_of(network.links()[i].kind)},
                                 {"rate", network.links()[i].rate},
                                 {"bytes", use.bytes},
                                 {"busy", use.busy}});
        if (of.by_symmetry) json["links"].back()["alike"] = alike;
    }
    return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace hocket::tools
