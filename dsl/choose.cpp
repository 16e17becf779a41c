#include "dsl/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "dsl/diagnostic.hpp"

namespace hocket::dsl {
namespace {

constexpr double reference_bytes = 1 << 20;
constexpr double message_share = 0.2;  // of a latency, for each message but the first of a phase

double length_of(const Region& region) {
    double length = 0;
    for (const Interval& interval : region) {
        const Rational width = interval.end - interval.begin;
        length += static_cast<double>(width.num()) / static_cast<double>(width.den());
    }
    return length;
}

}  // namespace

double estimate(const ast::Algorithm& algorithm, const Library& library, const Topology& topology,
                const Group& group, double bytes) {
    double latency = 0, bandwidth = 1e300;
    for (const int level : group.levels) {
        latency = std::max(latency, topology.levels[level].latency);
        bandwidth = std::min(bandwidth, topology.levels[level].bandwidth);
    }
    const Runnable runnable{nullptr, &algorithm, {}, algorithm.name.text};
    ElaborateOptions options;
    options.only = 0;
    const StepGraph graph = elaborate(runnable, library, flat_topology(group.size), options);

    struct Load {
        double sent = 0, received = 0;
        int messages = 0;
    };
    std::map<std::uint32_t, Load> phases;
    for (const Step& step : graph.steps) {
        Load& load = phases[step.phase];
        (step.source == 0 ? load.sent : load.received) += length_of(graph.regions[step.region]) * bytes;
        load.messages += step.source == 0;
    }
    double seconds = 0;
    for (const auto& [phase, load] : phases)
        seconds += latency * (1 + message_share * std::max(0, load.messages - 1)) +
                   std::max(load.sent, load.received) / bandwidth;
    return seconds;
}

Chooser make_chooser(const Library& library, const Topology& topology) {
    struct Found {
        const ast::Algorithm* algorithm;
        std::string text;
    };
    auto known = std::make_shared<std::map<std::pair<Collective, std::vector<int>>, Found>>();
    return [&library, &topology, known](Collective collective, const Group& group, Span call,
                                        std::vector<Choice>& choices) -> const ast::Algorithm& {
        auto found = known->find({collective, group.levels});
        if (found == known->end()) {
            std::vector<std::pair<double, const ast::Algorithm*>> ranked;
            for (const ast::Algorithm* algorithm : library.algorithms(collective))
                if (is_allowed(*algorithm, group))
                    ranked.push_back(
                        {estimate(*algorithm, library, topology, group, reference_bytes), algorithm});
            if (ranked.empty())
                throw DiagnosticError(call,
                                      fmt::format("there is no algorithm for {} on a group of {} ranks",
                                                  name_of(collective), group.size),
                                      library.where_looked());
            std::stable_sort(ranked.begin(), ranked.end(),
                             [](const auto& a, const auto& b) { return a.first < b.first; });
            std::string text = fmt::format("{} over {} ({} ranks):", name_of(collective),
                                           name_of(topology, group), group.size);
            for (const auto& [seconds, algorithm] : ranked)
                text += fmt::format("{} {} {:.0f} us", algorithm == ranked[0].second ? "" : ",",
                                    algorithm->name.text, seconds * 1e6);
            found = known
                        ->emplace(std::pair(collective, group.levels),
                                  Found{ranked[0].second, text + " (estimates at 1 MiB)"})
                        .first;
        }
        choices.push_back({call, found->second.text});
        return *found->second.algorithm;
    };
}

}  // namespace hocket::dsl
