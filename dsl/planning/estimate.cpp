#include "dsl/planning/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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
        stretches_ += double(graph.regions[step.region].size());
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

std::size_t Estimate::end_of(int level, Rank rank) const {
    return static_cast<std::size_t>(level) * static_cast<std::size_t>(topology_.ranks()) +
           static_cast<std::size_t>(dsl::end_of(topology_, links_[level].sharing, rank));
}

// ---- Clocks ------------------------------------------------------------------------------------

class Estimate::Clocks {
  public:
    Clocks(const Estimate& estimate, double bytes)
        : estimate_(estimate),
          bytes_(bytes),
          ranks_(static_cast<std::size_t>(estimate.topology_.ranks())),
          clocks_(ranks_),
          loads_(ranks_ * estimate.links_.size()),
          messages_(ranks_),
          passes_(ranks_) {}
    double run(const Deadline& deadline);

  private:
    // The load of one end of a link in one round.
    struct Load {
        double sent = 0, received = 0;
        std::array<std::size_t, most_sources> from = {};  // the ends that send to this one
        std::size_t sources = 0;

        void add_source(std::size_t end) {
            const auto known = from.begin() + static_cast<std::ptrdiff_t>(sources);
            if (sources < most_sources && std::find(from.begin(), known, end) == known) from[sources++] = end;
        }
        double received_crowded() const { return crowded_bytes(received, sources); }
    };
    // A rank's messages in one round.
    struct Messages {
        std::size_t sent = 0, received = 0;
    };
    // A rank's work in memory.
    struct Pass {
        double start = 0, latency = 0, seconds = 0;
    };
    struct Clock {
        double time = 0;
        double later = 0;      // after the current round
        bool is_busy = false;  // in this round
    };

    Load& end_of(int level, Rank rank) { return loads_[estimate_.end_of(level, rank)]; }
    double bytes_of(const Move& move) const { return estimate_.regions_[move.region] * bytes_; }
    const Link& link_of(const Move& move) const { return estimate_.links_[move.level]; }
    // Returns the rank whose clock and messages stand for this one's.
    Rank like(Rank rank) const { return estimate_.one_for_all_.value_or(rank); }
    Clock& clock(Rank rank) { return clocks_[static_cast<std::size_t>(like(rank))]; }
    double now(Rank rank) { return clock(rank).time; }
    void finish(Rank rank, double time) {
        Clock& own = clock(rank);
        if (!own.is_busy) busy_.push_back(like(rank));
        own.is_busy = true;
        own.later = std::max(own.later, time);
    }
    void load(const Move& move);
    void message(const Move& move);
    void fetch(const Move& move);
    void run_round(std::size_t begin, std::size_t end);
    void advance_clocks();
    void forget_round(std::size_t begin, std::size_t end);

    const Estimate& estimate_;
    double bytes_;
    std::size_t ranks_;
    std::vector<Clock> clocks_;  // by rank
    // Of the current round: by end, and by rank. Each estimate makes them anew, as many as there are ranks
    // and levels, however few take part.
    std::vector<Load> loads_;
    std::vector<Messages> messages_;
    std::vector<Pass> passes_;
    std::vector<Rank> busy_;  // whose clocks advance
};

double Estimate::seconds(double bytes, const Deadline& deadline) const {
    return Clocks(*this, bytes).run(deadline);
}

void Estimate::Clocks::load(const Move& move) {
    const Link& link = link_of(move);
    if (link.memory) return fetch(move);
    const double bytes = bytes_of(move) * (estimate_.one_for_all_ ? link.sharers : 1);
    end_of(move.level, move.source).sent += bytes;
    Load& destination = end_of(move.level, move.destination);
    destination.received += bytes;
    destination.add_source(estimate_.end_of(move.level, move.source));
    if (move.goes_along) return;
    ++messages_[move.source].sent;
    ++messages_[move.destination].received;
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
    const double sent = end_of(move.level, move.source).sent,
                 received = end_of(move.level, move.destination).received_crowded();
    const std::size_t outgoing = messages_[like(move.source)].sent,
                      incoming = messages_[like(move.destination)].received;
    const auto busy = [&](std::size_t messages) { return link.latency * message_share * double(messages); };
    const double latency = link.latency * (1 - message_share) + busy(std::max(outgoing, incoming));
    const double begun = now(move.source);
    finish(move.destination, begun + latency + std::max(sent, received) / link.bandwidth);
    finish(move.source, begun + busy(outgoing) + sent / link.bandwidth);
}

void Estimate::Clocks::advance_clocks() {
    for (const Rank rank : busy_) {
        Clock& own = clock(rank);
        own.time = std::max(own.time, std::exchange(own.later, 0));
        own.is_busy = false;
    }
    busy_.clear();
}

void Estimate::Clocks::run_round(std::size_t begin, std::size_t end) {
    const auto& moves = estimate_.moves_;
    for (std::size_t i = begin; i < end; ++i) load(moves[i]);
    for (std::size_t i = begin; i < end; ++i) {
        if (!link_of(moves[i]).memory) {
            message(moves[i]);
        } else {
            const Pass& pass = passes_[moves[i].destination];
            finish(moves[i].destination, pass.start + pass.latency + pass.seconds);
        }
    }
    advance_clocks();
    forget_round(begin, end);
}

void Estimate::Clocks::forget_round(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
        const Move& move = estimate_.moves_[i];
        for (const Rank rank : {move.source, move.destination}) {
            end_of(move.level, rank) = {};
            messages_[rank] = {};
        }
        passes_[move.destination] = {};
    }
}

double Estimate::Clocks::run(const Deadline& deadline) {
    DeadlineCounter counter(deadline);
    std::size_t begin = 0;
    for (const std::size_t end : estimate_.rounds_) {
        counter.check(estimating);
        run_round(begin, end);
        begin = end;
    }
    double last = 0;
    for (Rank rank = 0; rank < estimate_.topology_.ranks(); ++rank) last = std::max(last, now(rank));
    return last;
}

std::size_t Estimate::most_peers() const {
    std::vector<std::pair<Rank, Rank>> pairs;  // who gets, and from whom
    for (const Move& move : moves_)
        if (!links_[move.level].memory) pairs.emplace_back(move.destination, move.source);
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    std::size_t most = 0;
    for (std::size_t begin = 0, end = 0; begin < pairs.size(); begin = end) {
        while (end < pairs.size() && pairs[end].first == pairs[begin].first) ++end;
        most = std::max(most, end - begin);
    }
    return most;
}

double Estimate::busiest_link() const {
    // By end: out and in.
    std::vector<std::pair<double, double>> loads(links_.size() * static_cast<std::size_t>(topology_.ranks()));
    for (const Move& move : moves_) {
        if (links_[move.level].memory) continue;
        const double length = regions_[move.region] * (one_for_all_ ? links_[move.level].sharers : 1);
        loads[end_of(move.level, move.source)].first += length;
        loads[end_of(move.level, move.destination)].second += length;
    }
    double busiest = 0;
    for (const auto& [out, in] : loads) busiest = std::max({busiest, out, in});
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
