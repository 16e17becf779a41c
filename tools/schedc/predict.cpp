#include "tools/schedc/predict.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/named_file.hpp"
#include "dsl/planning/compile.hpp"
#include "dsl/planning/estimate.hpp"
#include "dsl/planning/predictable.hpp"
#include "runtime/base/error.hpp"
#include "tools/schedc/sweep.hpp"
#include "tools/tool.hpp"

namespace hocket::tools {
namespace {

using namespace dsl;

constexpr std::size_t most_drawn = 200000;  // messages in a picture or a trace

bool shows_messages(const PredictRequest& request) {
    return !request.timeline.empty() || !request.trace.empty();
}

}  // namespace

void write_result(const std::string& path, const std::string& text) try {
    OutputFile file(path);
    file << text;
    file.close();
    if (!file) throw std::runtime_error("not all of it could be written");
} catch (const std::runtime_error& error) {
    throw Error(Status::io, fmt::format("{}: {}", path, error.what()));
}

std::string with_ranks(std::string text, Rank ranks) {
    for (std::size_t at = 0; (at = text.find('%', at)) != std::string::npos;)
        text.replace(at, 1, std::to_string(ranks));
    return text;
}

PlanRequest plan_request(const PredictRequest& request, const std::string& schedule, Rank ranks,
                         double bytes) {
    PlanRequest plan;
    plan.collective = find_collective(request.collective, schedule, request.search_path);
    plan.schedule = schedule;
    plan.topology = ranks > 0 ? with_ranks(request.topology, ranks) : request.topology;
    plan.search_path = request.search_path;
    plan.ranks = ranks == 0 ? request.ranks : plan.topology.empty() ? ranks : 0;
    plan.root = request.root;
    plan.bytes = static_cast<std::uint64_t>(bytes);
    plan.start_parameters = request.parameters;
    plan.deadline = Deadline(std::chrono::duration<double>(request.timeout), request.waiting);
    if (plan.topology.empty() && plan.ranks == 0)
        throw NotFoundError(
            "the number of ranks is missing: give --topology (levels, innermost first: 2x3) or --ranks");
    return plan;
}

PredictOptions options_of(const PredictRequest& request, const Deadline& deadline) {
    return {request.ideal, shows_messages(request), request.certify, deadline,
            static_cast<double>(element_size(request.type))};
}

int run_predict(const PredictRequest& request) {
    if (!request.sweep.empty()) return run_sweep(request);
    if (request.bytes == 0) throw NotFoundError("the size is missing: --bytes 64M");
    if (request.schedules.size() > 1)
        throw DiagnosticError(Span(), fmt::format("{} schedules at once", request.schedules.size()),
                              "--sweep bytes=1K..1G compares several");
    const std::string named = request.schedules.empty() ? "" : request.schedules[0];
    const PlanRequest plan = plan_request(request, named, 0, static_cast<double>(request.bytes));
    const auto network_of = [&](const Topology& topology) {
        return std::make_shared<const Network>(find_network(request.network, topology));
    };
    const bool needs_all = shows_messages(request) || !request.exported.second.empty();
    Planner planner;
    PredictableSchedule laid_out(
        planner.to_predict(plan, network_of, needs_all ? WhoseSteps::of_all_ranks : WhoseSteps::by_size),
        options_of(request, plan.deadline));
    const Prediction prediction = laid_out.predict(static_cast<double>(request.bytes), plan.deadline);
    const ScheduleToPredict& schedule = laid_out.schedule();
    refuse_unknown_parameters(schedule);
    const Network& network = *schedule.network;
    const PredictedSchedule of{schedule.name,      schedule.topology.name, static_cast<double>(request.bytes),
                               request.ideal,      request.type,           schedule.symmetry.has_value(),
                               schedule.proved_on, schedule.why_in_full,   schedule.missing_densities,
                               request.parameters};
    if (prediction.timeline.size() > most_drawn)
        throw DiagnosticError(
            Span(),
            fmt::format("{} messages and calculations are too many to show", prediction.timeline.size()),
            fmt::format("a timeline or trace has at most {}: take fewer ranks", most_drawn));
    if (!request.timeline.empty())
        write_result(request.timeline, timeline_picture(of, *schedule.graph, prediction));
    if (!request.trace.empty()) write_result(request.trace, timeline_trace(*schedule.graph, prediction));
    if (!request.exported.second.empty())
        write_result(request.exported.second,
                     goal_text(*schedule.graph, network, static_cast<double>(request.bytes),
                               static_cast<double>(element_size(request.type)), plan.deadline));
    if (request.waiting) request.waiting->end();
    fmt::print("{}", request.json ? prediction_json(of, network, prediction) + "\n"
                                  : prediction_text(of, network, prediction));
    return 0;
}

}  // namespace hocket::tools
