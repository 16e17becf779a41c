#include "dsl/planning/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <unordered_map>
#include <utility>

namespace hocket::dsl {
namespace {

constexpr const char* estimating = "estimating how long a schedule takes";

// Returns the steps round by round. Within a round, those that one rank combines into one region are
// adjacent. within_ranks: also those that move data within a rank's own buffers.
std::vector<std::uint32_t> in_order(const StepGraph& graph, const std::vector<std::uint32_t>& rounds,
                                    bool within_ranks) {
    std::vector<std::uint32_t> order;
    for (std::uint32_t i = 0; i < graph.steps.size(); ++i)
        if (graph.steps[i].source != graph.steps[i].destination || within_ranks) order.push_back(i);
    const auto key = [&](std::uint32_t i) {
        const Step& step = graph.steps[i];
        return std::tuple(rounds[i], step.destination, step.phase, step.target, i);
    };
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
    return order;
}

}  // namespace

Estimate::Estimate(const StepGraph& graph, const Topology& topology, std::optional<Rank> seen_from,
                   const Deadline& deadline, double value_bytes)
    : topology_(topology), one_for_all_(seen_from) {
    for (const Region& region : graph.regions) regions_.push_back(share_of(graph, region, value_bytes));
    add_links();
    add_moves(graph, Rounds(graph).of_steps(deadline, estimating));
}

void Estimate::add_links() {
    const Rank local = ranks_over(topology_, [&](int level) { return is_memory(topology_.levels[level]); });
    for (int i = 0; i < static_cast<int>(topology_.levels.size()); ++i) {
        const Level& level = topology_.levels[i];
        const bool memory = is_memory(level);
        Link link{.latency = memory ? crowded_latency(level, local) : level.latency,
                  .bandwidth = memory ? crowded_bandwidth(level, local) : level.bandwidth,
                  .memory = memory,
                  .sharing = sharing_levels(topology_, i),
                  .sharers = 1};
        for (const int other : link.sharing) link.sharers *= topology_.levels[other].size;
        links_.push_back(std::move(link));
    }
}

// rounds: by step.
void Estimate::add_moves(const StepGraph& graph, const std::vector<std::uint32_t>& rounds) {
    // Data that a rank moves within its own buffers take as long as a copy in its host's memory, if the
    // topology has such a level.
    const auto memory =
        std::find_if(links_.begin(), links_.end(), [](const Link& link) { return link.memory; });
    const std::vector<std::uint32_t> order = in_order(graph, rounds, memory != links_.end());
    moves_.reserve(order.size());
    // An arrival is all that reaches one rank in one phase. In it, all but a source's first move go along.
    std::size_t arrival = 0;
    std::vector<std::size_t> sent_in(static_cast<std::size_t>(graph.ranks), 0);  // by source: an arrival
    for (std::size_t i = 0; i < order.size(); ++i) {
        const Step& step = graph.steps[order[i]];
        const bool is_new_round = i == 0 || rounds[order[i]] != rounds[order[i - 1]];
        if (is_new_round && i > 0) rounds_.push_back(i);
        const Step* before = is_new_round ? nullptr : &graph.steps[order[i - 1]];
        const bool arrives_with_it =
            before && before->destination == step.destination && before->phase == step.phase;
        if (!arrives_with_it) ++arrival;
        const std::size_t last_sent_in =
            std::exchange(sent_in[static_cast<std::size_t>(step.source)], arrival);
        moves_.push_back({.source = step.source,
                          .destination = step.destination,
                          .region = step.region,
                          .level = step.source == step.destination
                                       ? static_cast<int>(memory - links_.begin())
                                       : level_between(topology_, step.source, step.destination),
                          .combines = step.combines,
                          .again = arrives_with_it && before->target == step.target,
                          .goes_along = last_sent_in == arrival});
    }
    if (!moves_.empty()) rounds_.push_back(moves_.size());
}

std::uint64_t Estimate::end_of(int level, Rank rank) const {
    return std::uint64_t(level) << 32 | std::uint32_t(dsl::end_of(topology_, links_[level].sharing, rank));
}

// ---- Clocks ------------------------------------------------------------------------------------

class Estimate::Clocks {
  public:
    Clocks(const Estimate& estimate, double bytes)
        : estimate_(estimate), bytes_(bytes), clock_(estimate.topology_.ranks(), 0.0) {}
    double run(const Deadline& deadline);

  private:
    // The load of one end of a link in one round, or of a rank in memory.
    struct Load {
        double sent = 0, received = 0;
        std::array<std::uint64_t, most_sources> from = {};  // the ends that send to this one
        std::size_t sources = 0;

        void add_source(std::uint64_t end) {
            const auto known = from.begin() + static_cast<std::ptrdiff_t>(sources);
            if (sources < most_sources && std::find(from.begin(), known, end) == known) from[sources++] = end;
        }
        double received_crowded() const { return crowded_bytes(received, sources); }
    };
    struct Pass {
        double start = 0, latency = 0, seconds = 0;
    };

    std::uint64_t end_of(int level, Rank rank) const { return estimate_.end_of(level, rank); }
    double bytes_of(const Move& move) const { return estimate_.regions_[move.region] * bytes_; }
    const Link& link_of(const Move& move) const { return estimate_.links_[move.level]; }
    double now(Rank rank) const { return std::max(clock_[rank], floor_); }
    void finish(Rank rank, double time) { later_[rank] = std::max(later_[rank], time); }
    void load(const Move& move);
    void message(const Move& move);
    void fetch(const Move& move);
    void run_round(std::size_t begin, std::size_t end);

    const Estimate& estimate_;
    double bytes_;
    std::vector<double> clock_;
    double floor_ = 0;  // the clock of the one rank that stands for all, if there is one
    std::unordered_map<std::uint64_t, Load> loads_;
    std::unordered_map<Rank, std::size_t> messages_;  // the number of messages that the rank sends
    std::unordered_map<Rank, Pass> passes_;           // the rank's work in memory
    std::unordered_map<Rank, double> later_;          // the clocks after the round
};

double Estimate::seconds(double bytes, const Deadline& deadline) const {
    return Clocks(*this, bytes).run(deadline);
}

void Estimate::Clocks::load(const Move& move) {
    const Link& link = link_of(move);
    if (link.memory) return fetch(move);
    const double bytes = bytes_of(move) * (estimate_.one_for_all_ ? link.sharers : 1);
    const std::uint64_t source = end_of(move.level, move.source);
    loads_[source].sent += bytes;
    Load& destination = loads_[end_of(move.level, move.destination)];
    destination.received += bytes;
    destination.add_source(source);
    messages_[move.source] += move.goes_along ? 0 : 1;
}

void Estimate::Clocks::fetch(const Move& move) {
    const double touched = touched_bytes(move.combines, move.again);
    Pass& pass = passes_[move.destination];
    pass.start = std::max({pass.start, now(move.source), now(move.destination)});
    if (move.source != move.destination) pass.latency = std::max(pass.latency, link_of(move).latency);
    pass.seconds += touched * bytes_of(move) / link_of(move).bandwidth;
}

void Estimate::Clocks::message(const Move& move) {
    const Link& link = link_of(move);
    const double sent = loads_[end_of(move.level, move.source)].sent,
                 received = loads_[end_of(move.level, move.destination)].received_crowded();
    const double busy =
        link.latency * message_share * double(messages_[estimate_.one_for_all_.value_or(move.source)]);
    const double latency = link.latency * (1 - message_share) + busy;
    finish(move.destination, now(move.source) + latency + std::max(sent, received) / link.bandwidth);
    finish(move.source, now(move.source) + busy + sent / link.bandwidth);
}

void Estimate::Clocks::run_round(std::size_t begin, std::size_t end) {
    const auto& moves = estimate_.moves_;
    for (std::size_t i = begin; i < end; ++i) load(moves[i]);
    for (std::size_t i = begin; i < end; ++i)
        if (!link_of(moves[i]).memory) message(moves[i]);
    for (const auto& [rank, pass] : passes_) finish(rank, pass.start + pass.latency + pass.seconds);
    double last = floor_;
    for (const auto& [rank, time] : later_) {
        clock_[rank] = std::max(clock_[rank], time);
        last = std::max(last, clock_[rank]);
    }
    if (estimate_.one_for_all_) floor_ = last;
    loads_.clear();
    messages_.clear();
    passes_.clear();
    later_.clear();
}

double Estimate::Clocks::run(const Deadline& deadline) {
    DeadlineCounter counter(deadline);
    std::size_t begin = 0;
    for (const std::size_t end : estimate_.rounds_) {
        counter.check(estimating);
        run_round(begin, end);
        begin = end;
    }
    return *std::max_element(clock_.begin(), clock_.end());
}

std::size_t Estimate::most_peers() const {
    std::unordered_map<Rank, std::set<Rank>> sources;
    for (const Move& move : moves_)
        if (!links_[move.level].memory) sources[move.destination].insert(move.source);
    std::size_t most = 0;
    for (const auto& [rank, from] : sources) most = std::max(most, from.size());
    return most;
}

double Estimate::busiest_link() const {
    std::unordered_map<std::uint64_t, std::pair<double, double>> loads;  // by end: bytes out and in
    for (const Move& move : moves_) {
        if (links_[move.level].memory) continue;
        const double length = regions_[move.region] * (one_for_all_ ? links_[move.level].sharers : 1);
        loads[end_of(move.level, move.source)].first += length;
        loads[end_of(move.level, move.destination)].second += length;
    }
    double busiest = 0;
    for (const auto& [end, load] : loads) busiest = std::max({busiest, load.first, load.second});
    return busiest;
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

}  // namespace hocket::dsl
