#include "tools/overlap/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/texts.hpp"

namespace hocket::overlap_tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_shown = 48;  // characters of a line's batches

// Returns a text like "1-5 6-10 11-12".
std::string batches_text(const overlap::Batches& batches) {
    std::string text;
    std::size_t begin = 0;
    for (const std::size_t end : batches) {
        const std::string one =
            end == begin + 1 ? fmt::format("{}", end) : fmt::format("{}-{}", begin + 1, end);
        if (text.size() + one.size() > most_shown) return text + "...";
        text += one + " ";
        begin = end;
    }
    text.pop_back();
    return text;
}

}  // namespace

std::vector<Planned> plan_all(const overlap::Profile& profile, const overlap::PlanOptions& options) {
    const overlap::Sums sums(profile);
    std::vector<Planned> plans;
    for (const overlap::Method method : overlap::all_methods) {
        // A limit that cannot be kept is an error; a method for which the profile lacks data is left out.
        if (overlap::why_not(profile, overlap::Method::sequential, options) ||
            !overlap::why_not(profile, method, options)) {
            overlap::Plan made = overlap::plan(profile, method, options);
            overlap::Timeline timeline = overlap::simulate(sums, made.batches, options.direction);
            plans.push_back({std::move(made), std::move(timeline)});
        }
    }
    return plans;
}

namespace {

std::string rows_text(const std::vector<Planned>& plans) {
    std::string text = fmt::format("{:<11}{:>12}{:>9}{:>9}{:>12}{:>12}  {}\n", "method", "seconds", "batches",
                                   "overlap", "only comm.", "only comp.", "layers");
    for (const auto& [plan, timeline] : plans)
        text += fmt::format("{:<11}{:>12.6f}{:>9}{:>7.1f} %{:>12.6f}{:>12.6f}  {}\n",
                            overlap::name_of(plan.method), plan.seconds, plan.batches.size(),
                            100 * timeline.share_of_overlap(), timeline.communication - timeline.overlap,
                            timeline.computation - timeline.overlap, batches_text(plan.batches));
    return text;
}

std::string costs_text(const overlap::Profile& profile) {
    std::string text = fmt::format("{}, start-up {:.6g} s, transfers {:.6g} s, computation {:.6g} s\n",
                                   tools::count_text(profile.layers.size(), "layer"), profile.startup,
                                   overlap::Sums(profile).transfer(0, profile.layers.size()),
                                   overlap::Sums(profile).computation(0, profile.layers.size()));
    if (profile.before > 0 || profile.latency > 0)
        text +=
            fmt::format("a whole iteration takes {:.6g} s more: {:.6g} s before, and {:.6g} s of latency\n",
                        profile.before + profile.latency, profile.before, profile.latency);
    if (profile.contention > 0)
        text +=
            fmt::format("layers compute {:.1f} % longer beside communication, which is not in these times\n",
                        100 * profile.contention);
    return text;
}

// Both ways to pull weights, each as plans of one direction.
struct BothWays {
    overlap::Profile passes, forward;  // of both passes together; of the forward pass
    std::vector<Planned> with_gradients, by_themselves;
};

BothWays plan_both(const overlap::Profile& profile, overlap::PlanOptions options) {
    BothWays both{overlap::of_both_passes(profile), overlap::of_forward_pass(profile), {}, {}};
    options.direction = overlap::Direction::backward;
    both.with_gradients = plan_all(both.passes, options);
    options.direction = overlap::Direction::forward;
    both.by_themselves = plan_all(both.forward, options);
    return both;
}

const Planned* of_method(const std::vector<Planned>& plans, overlap::Method method) {
    const auto found = std::find_if(plans.begin(), plans.end(),
                                    [&](const Planned& one) { return one.plan.method == method; });
    return found == plans.end() ? nullptr : &*found;
}

// The time of an iteration with each method: with weights that come back with gradients and, if there is such
// a plan, with weights pulled separately.
struct Iteration {
    overlap::Method method;
    double with_gradients;
    std::optional<double> by_themselves;
};

std::vector<Iteration> iterations_of(const overlap::Profile& profile, const BothWays& both) {
    std::vector<Iteration> all;
    for (const auto& [plan, timeline] : both.with_gradients) {
        all.push_back({plan.method, overlap::seconds_of_iteration(profile, {plan.batches}), std::nullopt});
        if (const Planned* const forward = of_method(both.by_themselves, plan.method))
            all.back().by_themselves =
                overlap::seconds_of_iteration(profile, {plan.batches, forward->plan.batches});
    }
    return all;
}

}  // namespace

std::string table_text(const overlap::Profile& profile, const std::vector<Planned>& plans) {
    return costs_text(profile) + rows_text(plans);
}

std::string both_table_text(const overlap::Profile& profile, const overlap::PlanOptions& options) {
    const BothWays both = plan_both(profile, options);
    std::string text = costs_text(both.passes) + "weights come back with gradients: both passes\n" +
                       rows_text(both.with_gradients) +
                       "\nweights come back by themselves: the forward pass\n" +
                       rows_text(both.by_themselves) + "\nwhole iterations, in seconds\n" +
                       fmt::format("{:<11}{:>16}{:>16}\n", "method", "with gradients", "by themselves");
    for (const Iteration& one : iterations_of(profile, both))
        text += fmt::format("{:<11}{:>16.6f}{:>16}\n", overlap::name_of(one.method), one.with_gradients,
                            one.by_themselves ? fmt::format("{:.6f}", *one.by_themselves) : "-");
    return text;
}

namespace {

Json methods_json(const std::vector<Planned>& plans) {
    Json methods = Json::object();
    for (const auto& [plan, timeline] : plans) {
        Json batches = Json::array();
        std::size_t begin = 0;
        for (const std::size_t end : plan.batches) {
            batches.push_back({begin + 1, end});
            begin = end;
        }
        methods[std::string(overlap::name_of(plan.method))] = {{"seconds", plan.seconds},
                                                               {"overlap", timeline.overlap},
                                                               {"communication", timeline.communication},
                                                               {"computation", timeline.computation},
                                                               {"batches", batches}};
    }
    return methods;
}

Json costs_json(const overlap::Profile& profile) {
    return {{"startup", profile.startup},
            {"before", profile.before},
            {"latency", profile.latency},
            {"contention", profile.contention},
            {"layers", profile.layers.size()}};
}

}  // namespace

std::string json_text(const overlap::Profile& profile, overlap::Direction direction,
                      const std::vector<Planned>& plans) {
    Json json = {{"direction", direction == overlap::Direction::forward ? "forward" : "backward"}};
    json.update(costs_json(profile));
    json["methods"] = methods_json(plans);
    if (direction == overlap::Direction::backward)
        for (const auto& [plan, timeline] : plans)
            json["methods"][std::string(overlap::name_of(plan.method))]["iteration"] =
                overlap::seconds_of_iteration(profile, {plan.batches});
    return json.dump(2);
}

std::string both_json_text(const overlap::Profile& profile, const overlap::PlanOptions& options) {
    const BothWays both = plan_both(profile, options);
    Json json = {{"direction", "both"}};
    json.update(costs_json(profile));
    json["with_gradients"] = methods_json(both.with_gradients);
    json["by_themselves"] = methods_json(both.by_themselves);
    for (const Iteration& one : iterations_of(profile, both)) {
        Json& iteration = json["iterations"][std::string(overlap::name_of(one.method))];
        iteration["with_gradients"] = one.with_gradients;
        if (one.by_themselves) iteration["by_themselves"] = *one.by_themselves;
    }
    return json.dump(2);
}

}  // namespace hocket::overlap_tool
