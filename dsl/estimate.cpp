#include "dsl/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

namespace hocket::dsl {
namespace {

constexpr double message_share = 0.2;  // of a latency: what each message keeps its sender busy

bool is_memory(const Level& level) {
    return level.medium == "memory";
}

// The levels whose ranks use one end of this level's links together.
std::vector<int> sharing_levels(const Topology& topology, int level) {
    std::vector<int> result;
    const std::string& outermost = topology.levels[level].shared_by;
    if (outermost.empty()) return result;
    for (int other = 0; other < static_cast<int>(topology.levels.size()); ++other) {
        if (other != level) result.push_back(other);
        if (topology.levels[other].name == outermost) break;
    }
    return result;
}

// How many times longer a rank takes for what it does in memory, if so many of them share the level's cores.
double slowdown(const Level& level, Rank ranks_of_host) {
    return level.cores > 0 ? std::max(1.0, double(ranks_of_host) / level.cores) : 1.0;
}

// The level's figures where so many ranks share its cores.
double crowded_latency(const Level& level, Rank ranks_of_host) {
    const double slower = slowdown(level, ranks_of_host);
    return slower > 1 ? slower * (level.latency + core_switch) : level.latency;
}
double crowded_bandwidth(const Level& level, Rank ranks_of_host) {
    return level.bandwidth / slowdown(level, ranks_of_host);
}

template <typename Condition>
Rank ranks_over(const Topology& topology, Condition counts) {
    Rank ranks = 1;
    for (int level = 0; level < static_cast<int>(topology.levels.size()); ++level)
        if (counts(level)) ranks *= topology.levels[level].size;
    return ranks;
}

// ---- Rounds
// ------------------------------------------------------------------------------------------------

// The round of each step. A phase is in the first round after those that its ranks have had in its strand,
// and before the strand began.
class Rounds {
  public:
    explicit Rounds(const StepGraph& graph) : graph_(graph) {}

    std::vector<std::uint32_t> of_steps() {
        const std::vector<Step>& steps = graph_.steps;
        std::vector<std::uint32_t> rounds(steps.size());
        for (std::size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
            std::uint32_t round = 0;
            for (; end < steps.size() && steps[end].phase == steps[begin].phase; ++end)
                for (const Rank rank : {steps[end].source, steps[end].destination})
                    round = std::max(round, progress(steps[end].strand, rank).next);
            for (std::size_t i = begin; i < end; ++i) {
                rounds[i] = round;
                for (const Rank rank : {steps[i].source, steps[i].destination})
                    pass(steps[i].strand, rank, round);
            }
        }
        return rounds;
    }

  private:
    struct Progress {
        std::uint32_t next = 0;
        std::uint32_t block = 0, before = 0;  // of the last `parallel` in it: `next` before that
    };

    Progress& progress(std::uint32_t strand, Rank rank) {
        const auto [entry, is_new] = progress_.try_emplace(std::uint64_t{strand} << 32 | std::uint32_t(rank));
        Progress& own = entry->second;
        if (is_new && strand != 0) {
            const Strand& definition = graph_.strands[strand];
            Progress& parent = progress(definition.parent, rank);
            if (parent.block != definition.block) {
                parent.block = definition.block;
                parent.before = parent.next;
            }
            own.next = parent.before;
        }
        return own;
    }

    void pass(std::uint32_t strand, Rank rank, std::uint32_t round) {
        for (;; strand = graph_.strands[strand].parent) {
            Progress& own = progress(strand, rank);
            own.next = std::max(own.next, round + 1);
            if (strand == 0) return;
        }
    }

    const StepGraph& graph_;
    std::unordered_map<std::uint64_t, Progress> progress_;  // by strand and rank
};

// ---- Clocks
// ------------------------------------------------------------------------------------------------

class Clocks {
  public:
    Clocks(const StepGraph& graph, const Topology& topology, double bytes, std::optional<Rank> seen_from);
    double run();

  private:
    struct Link {  // a level's links, at one end
        double latency, bandwidth;
        bool memory;
        std::vector<int> sharing;
        Rank sharers;
    };
    // What an end of a link carries, or a rank does in memory, in one round.
    struct Load {
        double sent = 0, received = 0;
    };
    struct Pass {
        double start = 0, latency = 0, seconds = 0;
    };

    int level_between(Rank a, Rank b) const;
    std::uint64_t end_of(int level, Rank rank) const;
    double now(Rank rank) const { return std::max(clock_[rank], floor_); }
    void finish(Rank rank, double time) { later_[rank] = std::max(later_[rank], time); }
    void load(const Step& step, bool again);
    void message(const Step& step, int level);
    void fetch(const Step& step, int level, bool again);
    void run_round(std::size_t begin, std::size_t end);

    const StepGraph& graph_;
    const Topology& topology_;
    bool one_for_all_;
    std::vector<double> lengths_;  // of the regions, in bytes
    std::vector<Link> links_;      // by level
    std::vector<std::uint32_t> order_;
    std::vector<std::uint32_t> rounds_;

    std::vector<double> clock_;
    double floor_ = 0;  // where one rank stands for all: its clock
    std::unordered_map<std::uint64_t, Load> loads_;
    std::unordered_map<Rank, std::size_t> messages_;  // that the rank sends
    std::unordered_map<Rank, Pass> passes_;           // what the rank does in memory
    std::unordered_map<Rank, double> later_;          // clocks after the round
};

Clocks::Clocks(const StepGraph& graph, const Topology& topology, double bytes, std::optional<Rank> seen_from)
    : graph_(graph),
      topology_(topology),
      one_for_all_(seen_from.has_value()),
      order_(graph.steps.size()),
      rounds_(Rounds(graph).of_steps()),
      clock_(topology.ranks(), 0.0) {
    for (const Region& region : graph.regions) lengths_.push_back(length_of(region) * bytes);
    const Rank local = ranks_over(topology, [&](int level) { return is_memory(topology.levels[level]); });
    for (int i = 0; i < static_cast<int>(topology.levels.size()); ++i) {
        const Level& level = topology.levels[i];
        Link link{is_memory(level) ? crowded_latency(level, local) : level.latency,
                  is_memory(level) ? crowded_bandwidth(level, local) : level.bandwidth, is_memory(level),
                  sharing_levels(topology, i), 1};
        for (const int other : link.sharing) link.sharers *= topology.levels[other].size;
        links_.push_back(std::move(link));
    }
    // Of one round, what one rank combines into one region stands together.
    std::iota(order_.begin(), order_.end(), 0);
    const auto key = [&](std::uint32_t i) {
        const Step& step = graph.steps[i];
        return std::tuple(rounds_[i], step.destination, step.phase, step.region, i);
    };
    std::sort(order_.begin(), order_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
}

int Clocks::level_between(Rank a, Rank b) const {
    int memory = 0;
    for (int level = static_cast<int>(links_.size()); level-- > 0;) {
        if (topology_.coordinate(a, level) == topology_.coordinate(b, level)) continue;
        if (!links_[level].memory) return level;
        memory = std::max(memory, level);
    }
    return memory;
}

// Named by the lowest rank that uses it.
std::uint64_t Clocks::end_of(int level, Rank rank) const {
    Rank lowest = rank;
    for (const int other : links_[level].sharing)
        lowest -= topology_.coordinate(rank, other) * topology_.stride(other);
    return std::uint64_t(level) << 32 | std::uint32_t(lowest);
}

// again: the step before brought the same region to the same rank in the same phase.
void Clocks::load(const Step& step, bool again) {
    const int level = level_between(step.source, step.destination);
    if (links_[level].memory) return fetch(step, level, again);
    const double bytes = lengths_[step.region] * (one_for_all_ ? links_[level].sharers : 1);
    loads_[end_of(level, step.source)].sent += bytes;
    loads_[end_of(level, step.destination)].received += bytes;
    messages_[step.source] += graph_.regions[step.region].size();
}

void Clocks::fetch(const Step& step, int level, bool again) {
    const double touched = step.combines && again ? 1 : step.combines ? 3 : 2;
    Pass& pass = passes_[step.destination];
    pass.start = std::max({pass.start, now(step.source), now(step.destination)});
    pass.latency = std::max(pass.latency, links_[level].latency);
    pass.seconds += touched * lengths_[step.region] / links_[level].bandwidth;
}

void Clocks::message(const Step& step, int level) {
    const Link& link = links_[level];
    const double sent = loads_[end_of(level, step.source)].sent,
                 received = loads_[end_of(level, step.destination)].received;
    const double busy = link.latency * message_share * double(messages_[step.source]);
    const double latency = link.latency * (1 - message_share) + busy;
    finish(step.destination, now(step.source) + latency + std::max(sent, received) / link.bandwidth);
    finish(step.source, now(step.source) + busy + sent / link.bandwidth);
}

void Clocks::run_round(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
        const Step& step = graph_.steps[order_[i]];
        const Step* before = i > begin ? &graph_.steps[order_[i - 1]] : nullptr;
        load(step, before && before->destination == step.destination && before->phase == step.phase &&
                       before->region == step.region);
    }
    for (std::size_t i = begin; i < end; ++i) {
        const Step& step = graph_.steps[order_[i]];
        const int level = level_between(step.source, step.destination);
        if (!links_[level].memory) message(step, level);
    }
    for (const auto& [rank, pass] : passes_) finish(rank, pass.start + pass.latency + pass.seconds);
    double last = floor_;
    for (const auto& [rank, time] : later_) {
        clock_[rank] = std::max(clock_[rank], time);
        last = std::max(last, clock_[rank]);
    }
    if (one_for_all_) floor_ = last;
    loads_.clear();
    messages_.clear();
    passes_.clear();
    later_.clear();
}

double Clocks::run() {
    for (std::size_t begin = 0, end = 0; begin < order_.size(); begin = end) {
        while (end < order_.size() && rounds_[order_[end]] == rounds_[order_[begin]]) ++end;
        run_round(begin, end);
    }
    return *std::max_element(clock_.begin(), clock_.end());
}

}  // namespace

double length_of(const Region& region) {
    double length = 0;
    for (const Interval& interval : region) {
        const Rational width = interval.end - interval.begin;
        length += static_cast<double>(width.num()) / static_cast<double>(width.den());
    }
    return length;
}

double estimate(const StepGraph& graph, const Topology& topology, double bytes,
                std::optional<Rank> seen_from) {
    return Clocks(graph, topology, bytes, seen_from).run();
}

Topology restricted_to(const Group& group, const Topology& topology, bool all_at_once) {
    const auto is_inside = [&](int level) {
        return std::binary_search(group.levels.begin(), group.levels.end(), level);
    };
    const Rank local = ranks_over(topology, [&](int level) {
        return is_memory(topology.levels[level]) && (all_at_once || is_inside(level));
    });
    Topology result;
    result.name = name_of(topology, group);
    for (const int i : group.levels) {
        Level level = topology.levels[i];
        if (is_memory(level)) {
            level.latency = crowded_latency(level, local);
            level.bandwidth = crowded_bandwidth(level, local);
            level.cores = 0;
        }
        level.shared_by.clear();
        for (const int other : sharing_levels(topology, i)) {
            if (is_inside(other))
                level.shared_by = topology.levels[other].name;
            else if (all_at_once)
                level.bandwidth /= topology.levels[other].size;
        }
        result.levels.push_back(std::move(level));
    }
    return result;
}

std::string text_of_size(double bytes) {
    for (const char* unit : {"B", "KiB", "MiB"}) {
        if (bytes < 1024) return fmt::format("{} {}", std::round(bytes * 10) / 10, unit);
        bytes /= 1024;
    }
    return fmt::format("{} GiB", std::round(bytes * 10) / 10);
}

std::string text_of_time(double seconds) {
    const double value = seconds * 1e6;
    return fmt::format("{} us", value < 10 ? std::round(value * 10) / 10 : std::round(value));
}

}  // namespace hocket::dsl
