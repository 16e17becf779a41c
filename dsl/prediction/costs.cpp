#include "dsl/prediction/costs.hpp"

namespace hocket::dsl {
namespace {

// Returns the factor by which a rank's work in memory slows down if this many ranks share the level's cores.
double slowdown(const Level& level, Rank ranks_of_host) {
    return level.cores > 0 ? std::max(1.0, double(ranks_of_host) / level.cores) : 1.0;
}

}  // namespace

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

Rank end_of(const Topology& topology, const std::vector<int>& sharing, Rank rank) {
    Rank lowest = rank;
    for (const int level : sharing) lowest -= topology.coordinate(rank, level) * topology.stride(level);
    return lowest;
}

Rank first_of_host(const Level& level, Rank rank) {
    Rank first = 0;
    for (const Rank ranks : level.hosts) {
        if (rank < first + ranks) break;
        first += ranks;
    }
    return first;
}

int level_between(const Topology& topology, Rank a, Rank b) {
    int memory = 0;
    for (int level = static_cast<int>(topology.levels.size()); level-- > 0;) {
        if (topology.coordinate(a, level) == topology.coordinate(b, level)) continue;
        if (!is_memory(topology.levels[level])) return level;
        memory = std::max(memory, level);
    }
    return memory;
}

double crowded_latency(const Level& level, Rank ranks_of_host) {
    const double slower = slowdown(level, ranks_of_host);
    return slower > 1 ? slower * (level.latency + core_switch) : level.latency;
}

double crowded_bandwidth(const Level& level, Rank ranks_of_host) {
    return level.bandwidth / slowdown(level, ranks_of_host);
}

double length_of(const Region& region) {
    double length = 0;
    for (const Interval& interval : region) {
        const Rational width = interval.end - interval.begin;
        length += width.value();
    }
    return length;
}

double share_of(const StepGraph& graph, const Region& region, double value_bytes) {
    double share = 0;
    for (const Interval& interval : region) {
        const ExtraBuffer* extra = graph.extra_at(interval.begin.num() / interval.begin.den());
        const double width = Rational(interval.end - interval.begin).value();
        if (!extra || extra->is_like_x()) {
            share += width;
            continue;
        }
        // In a graph of one rank's steps, that rank's region stands for all.
        const auto known = std::find_if(extra->regions.begin(), extra->regions.end(),
                                        [](std::uint32_t r) { return r != ExtraBuffer::missing; });
        if (known != extra->regions.end())
            share += share_of_piece(*extra, length_of(graph.regions[*known]), value_bytes) * width *
                     static_cast<double>(graph.ranks * extra->parts);
    }
    return share;
}

// ---- Rounds ------------------------------------------------------------------------------------

std::vector<std::uint32_t> Rounds::of_steps(const Deadline& deadline, std::string_view doing) {
    DeadlineCounter counter(deadline);
    const std::vector<Step>& steps = graph_.steps;
    std::vector<std::uint32_t> rounds(steps.size());
    for (std::size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
        counter.check(doing);
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

Rounds::Progress& Rounds::progress(std::uint32_t strand, Rank rank) {
    if (one_for_all_) rank = 0;
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

void Rounds::pass(std::uint32_t strand, Rank rank, std::uint32_t round) {
    for (;; strand = graph_.strands[strand].parent) {
        Progress& own = progress(strand, rank);
        own.next = std::max(own.next, round + 1);
        if (strand == 0) return;
    }
}

}  // namespace hocket::dsl
