#include "tools/overlap/report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/texts.hpp"

namespace hocket::overlap_tool {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_shown = 48;  // characters of a line's batches

// "1-5 6-10 11-12"
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
        // A limit that cannot be kept is an error; a method that lacks something is left out.
        if (overlap::why_not(profile, overlap::Method::sequential, options) ||
            !overlap::why_not(profile, method, options)) {
            overlap::Plan made = overlap::plan(profile, method, options);
            overlap::Timeline timeline = overlap::simulate(sums, made.batches, options.direction);
            plans.push_back({std::move(made), std::move(timeline)});
        }
    }
    return plans;
}

std::string table_text(const overlap::Profile& profile, const std::vector<Planned>& plans) {
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
    text += fmt::format("{:<11}{:>12}{:>9}{:>9}{:>12}{:>12}  {}\n", "method", "seconds", "batches", "overlap",
                        "only comm.", "only comp.", "layers");
    for (const auto& [plan, timeline] : plans)
        text += fmt::format("{:<11}{:>12.6f}{:>9}{:>7.1f} %{:>12.6f}{:>12.6f}  {}\n",
                            overlap::name_of(plan.method), plan.seconds, plan.batches.size(),
                            100 * timeline.share_of_overlap(), timeline.communication - timeline.overlap,
                            timeline.computation - timeline.overlap, batches_text(plan.batches));
    return text;
}

std::string json_text(const overlap::Profile& profile, overlap::Direction direction,
                      const std::vector<Planned>& plans) {
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
        if (direction == overlap::Direction::backward)
            methods[std::string(overlap::name_of(plan.method))]["iteration"] =
                overlap::seconds_of_iteration(profile, plan.batches);
    }
    const Json json = {{"direction", direction == overlap::Direction::forward ? "forward" : "backward"},
                       {"startup", profile.startup},
                       {"before", profile.before},
                       {"latency", profile.latency},
                       {"contention", profile.contention},
                       {"layers", profile.layers.size()},
                       {"methods", methods}};
    return json.dump(2);
}

}  // namespace hocket::overlap_tool
