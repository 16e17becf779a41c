#include "dsl/choose.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "dsl/compile.hpp"
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

namespace {

// What a rank does in one phase.
struct Load {
    double sent = 0, received = 0, start = 0;
    int messages = 0;
};

}  // namespace

double estimate(const ast::Algorithm& algorithm, const Library& library, const Topology& topology,
                const Group& group, double bytes) {
    double latency = 0, bandwidth = 1e300;
    for (const int level : group.levels) {
        latency = std::max(latency, topology.levels[level].latency);
        bandwidth = std::min(bandwidth, topology.levels[level].bandwidth);
    }
    const Runnable runnable{nullptr, &algorithm, {}, algorithm.name.text};
    const StepGraph graph = elaborate(runnable, library, flat_topology(group.size), {});
    std::vector<double> lengths;
    for (const Region& region : graph.regions) lengths.push_back(length_of(region) * bytes);

    std::vector<double> clock(group.size, 0.0);
    std::vector<Load> loads(group.size);
    for (std::size_t begin = 0, end = 0; begin < graph.steps.size(); begin = end) {
        for (; end < graph.steps.size() && graph.steps[end].phase == graph.steps[begin].phase; ++end) {
            const Step& step = graph.steps[end];
            Load &from = loads[step.source], &to = loads[step.destination];
            from.sent += lengths[step.region];
            to.received += lengths[step.region];
            ++from.messages;
            from.start = clock[step.source];
        }
        for (std::size_t i = begin; i < end; ++i) {
            const Step& step = graph.steps[i];
            const Load &from = loads[step.source], &to = loads[step.destination];
            const double arrival = from.start + latency * (1 + message_share * (from.messages - 1)) +
                                   std::max(from.sent, to.received) / bandwidth;
            clock[step.destination] = std::max(clock[step.destination], arrival);
            clock[step.source] = std::max(clock[step.source], from.start + from.sent / bandwidth);
        }
        for (std::size_t i = begin; i < end; ++i)
            loads[graph.steps[i].source] = loads[graph.steps[i].destination] = Load();
    }
    return *std::max_element(clock.begin(), clock.end());
}

namespace {

struct Candidate {
    const ast::Algorithm* algorithm;
    double seconds;
};

bool is_right(const ast::Algorithm& algorithm, const Library& library, Rank size) {
    try {
        verify_algorithm(algorithm, library, size);
        return true;
    } catch (const DiagnosticError&) {
        return false;
    }
}

// Those that can run on the group, cheapest first.
std::vector<Candidate> candidates(Collective collective, const Group& group, const Library& library,
                                  const Topology& topology) {
    std::vector<Candidate> result;
    for (const ast::Algorithm* algorithm : library.algorithms(collective)) {
        try {
            if (is_allowed(*algorithm, group))
                result.push_back(
                    {algorithm, estimate(*algorithm, library, topology, group, reference_bytes)});
        } catch (const DiagnosticError&) {  // it cannot even be laid out: nobody's choice
        }
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
    return result;
}

}  // namespace

Chooser make_chooser(const Library& library, const Topology& topology) {
    struct Found {
        const ast::Algorithm* algorithm = nullptr;
        std::string text;
    };
    auto known = std::make_shared<std::map<std::pair<Collective, std::vector<int>>, Found>>();
    const auto find = [&library, &topology](Collective collective, const Group& group) {
        Found found;
        found.text =
            fmt::format("{} over {} ({} ranks):", name_of(collective), name_of(topology, group), group.size);
        for (const Candidate& candidate : candidates(collective, group, library, topology)) {
            const bool chosen = !found.algorithm && is_right(*candidate.algorithm, library, group.size);
            found.text +=
                fmt::format(" {} {:.0f} us{},", candidate.algorithm->name.text, candidate.seconds * 1e6,
                            chosen || found.algorithm ? "" : " (wrong on this group)");
            if (chosen) found.algorithm = candidate.algorithm;
        }
        found.text.back() = ' ';
        found.text += "(estimates at 1 MiB)";
        return found;
    };
    return [&library, known, find](Collective collective, const Group& group, Span call,
                                   std::vector<Choice>& choices) -> const ast::Algorithm& {
        const auto key = std::pair(collective, group.levels);
        auto found = known->find(key);
        if (found == known->end()) found = known->emplace(key, find(collective, group)).first;
        if (!found->second.algorithm)
            throw DiagnosticError(call,
                                  fmt::format("there is no algorithm for {} on a group of {} ranks",
                                              name_of(collective), group.size),
                                  library.where_looked());
        choices.push_back({call, found->second.text});
        return *found->second.algorithm;
    };
}

}  // namespace hocket::dsl
