#include "dsl/planning/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace hocket::dsl {
namespace {

constexpr const char* estimating = "estimating how long a schedule takes";

// Returns the steps round by round. Within a round, those that one rank combines into one region are
// adjacent.
std::vector<std::uint32_t> in_order(const StepGraph& graph, const std::vector<std::uint32_t>& rounds) {
    std::vector<std::uint32_t> order(graph.steps.size());
    std::iota(order.begin(), order.end(), std::uint32_t{0});
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
        if (!level.hosts.empty()) {
            link.sharers = *std::max_element(level.hosts.begin(), level.hosts.end());
            for (Rank rank = 0; rank < level.size; ++rank) link.ends.push_back(first_of_host(level, rank));
        }
        links_.push_back(std::move(link));
    }
    // Data that a rank moves within its own buffers take as long as a copy in its host's memory.
    const auto memory =
        std::find_if(links_.begin(), links_.end(), [](const Link& link) { return link.memory; });
    own_memory_ = static_cast<int>(memory - links_.begin());
    if (memory != links_.end()) return;
    links_.push_back({.latency = memory_latency,
                      .bandwidth = memory_bandwidth,
                      .memory = true,
                      .sharing = {},
                      .sharers = 1});
}

// Numbers the clocks of ranks in strands.
class Estimate::ClockNumbers {
  public:
    ClockNumbers(Estimate& estimate, const StepGraph& graph) : estimate_(estimate), graph_(graph) {
        for (std::uint32_t rank = 0; rank < std::uint32_t(graph.ranks); ++rank)
            estimate_.clocks_.push_back({.parent = rank, .block = 0});
    }
    std::uint32_t of(std::uint32_t strand, Rank rank) {
        const auto counted = static_cast<std::uint32_t>(estimate_.one_for_all_.value_or(rank));
        if (strand == 0) return counted;
        const std::uint64_t key = std::uint64_t{strand} << 32 | counted;
        if (const auto known = numbers_.find(key); known != numbers_.end()) return known->second;
        const Strand& definition = graph_.strands[strand];
        const std::uint32_t parent = of(definition.parent, rank);
        const auto number = static_cast<std::uint32_t>(estimate_.clocks_.size());
        estimate_.clocks_.push_back({.parent = parent, .block = definition.block});
        numbers_.emplace(key, number);
        return number;
    }

  private:
    Estimate& estimate_;
    const StepGraph& graph_;
    std::unordered_map<std::uint64_t, std::uint32_t> numbers_;  // by strand and rank
};

// rounds: by step.
void Estimate::add_moves(const StepGraph& graph, const std::vector<std::uint32_t>& rounds) {
    const std::vector<std::uint32_t> order = in_order(graph, rounds);
    moves_.reserve(order.size());
    ClockNumbers clocks(*this, graph);
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
                          .source_clock = clocks.of(step.strand, step.source),
                          .destination_clock = clocks.of(step.strand, step.destination),
                          .region = step.region,
                          .level = level_of(step),
                          .combines = step.combines,
                          .again = arrives_with_it && before->target == step.target,
                          .goes_along = last_sent_in == arrival});
    }
    if (!moves_.empty()) rounds_.push_back(moves_.size());
}

int Estimate::level_of(const Step& step) const {
    if (step.source == step.destination) return own_memory_;
    const int level = level_between(topology_, step.source, step.destination);
    const std::vector<Rank>& ends = links_[level].ends;
    const bool is_inside = !ends.empty() && ends[static_cast<std::size_t>(step.source)] ==
                                                ends[static_cast<std::size_t>(step.destination)];
    return is_inside ? own_memory_ : level;
}

std::size_t Estimate::end_of(int level, Rank rank) const {
    const Link& link = links_[level];
    const Rank end = link.ends.empty() ? dsl::end_of(topology_, link.sharing, rank)
                                       : link.ends[static_cast<std::size_t>(rank)];
    return static_cast<std::size_t>(level) * static_cast<std::size_t>(topology_.ranks()) +
           static_cast<std::size_t>(end);
}

// ---- Clocks ------------------------------------------------------------------------------------

class Estimate::Clocks {
  public:
    Clocks(const Estimate& estimate, double bytes)
        : estimate_(estimate),
          bytes_(bytes),
          ranks_(static_cast<std::size_t>(estimate.topology_.ranks())),
          clocks_(estimate.clocks_.size()),
          loads_(ranks_ * estimate.links_.size()),
          carried_(loads_.size()),
          messages_(ranks_),
          in_memory_(ranks_),
          work_(ranks_),
          passes_(estimate.clocks_.size()) {}
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
    // The bytes that an end carries in all.
    struct Carried {
        double sent = 0, received = 0;
    };
    // The seconds that a rank works in all: for the messages that it sends, for those that it receives, and
    // in memory.
    struct Work {
        double sending = 0, receiving = 0, in_memory = 0;
    };
    // A strand's work in memory: it begins once its data are there.
    struct Pass {
        double start = 0, latency = 0;
    };
    struct Clock {
        double time = 0;
        double later = 0;         // after the current round
        bool is_busy = false;     // in this round
        bool has_begun = false;   // of a strand
        std::uint32_t block = 0;  // the last `parallel` in it,
        double before = 0;        // and the time when that began
    };

    Load& end_of(int level, Rank rank) { return loads_[estimate_.end_of(level, rank)]; }
    double bytes_of(const Move& move) const { return estimate_.regions_[move.region] * bytes_; }
    const Link& link_of(const Move& move) const { return estimate_.links_[move.level]; }
    // Returns the rank whose messages stand for this one's.
    Rank like(Rank rank) const { return estimate_.one_for_all_.value_or(rank); }
    double now(std::uint32_t clock);
    void finish(std::uint32_t clock, double time) {
        Clock& own = clocks_[clock];
        if (!own.is_busy) busy_.push_back(clock);
        own.is_busy = true;
        own.later = std::max(own.later, time);
    }
    void load(const Move& move);
    void message(const Move& move);
    void fetch(const Move& move);
    void run_round(std::size_t begin, std::size_t end);
    void advance_clocks();
    void forget_round(std::size_t begin, std::size_t end);
    double until_all_is_done() const;  // by each end and each rank, if nothing else kept them

    const Estimate& estimate_;
    double bytes_;
    std::size_t ranks_;
    std::vector<Clock> clocks_;
    // Of the current round: by end, rank or clock. Each estimate makes them anew, as many as there are ranks
    // and levels, however few take part.
    std::vector<Load> loads_;
    std::vector<Carried> carried_;  // by end, of all rounds
    std::vector<Messages> messages_;
    std::vector<double> in_memory_;  // seconds of a rank's work in memory, in all its strands
    std::vector<Work> work_;         // by rank, of all rounds
    std::vector<Pass> passes_;
    std::vector<std::uint32_t> busy_;  // the clocks that advance
};

double Estimate::seconds(double bytes, const Deadline& deadline) const {
    return Clocks(*this, bytes).run(deadline);
}

double Estimate::Clocks::now(std::uint32_t clock) {
    Clock& own = clocks_[clock];
    const auto [parent, block] = estimate_.clocks_[clock];
    if (parent == clock || own.has_begun) return own.time;
    const double arrived = now(parent);
    Clock& above = clocks_[parent];
    if (std::exchange(above.block, block) != block) above.before = arrived;
    own.has_begun = true;
    return own.time = above.before;
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
    work_[move.source].sending += message_share * link.latency;
    work_[move.destination].receiving += message_share * link.latency;
}

void Estimate::Clocks::fetch(const Move& move) {
    const double touched = touched_bytes(move.combines, move.again);
    Pass& pass = passes_[move.destination_clock];
    pass.start = std::max({pass.start, now(move.source_clock), now(move.destination_clock)});
    if (move.source != move.destination) pass.latency = std::max(pass.latency, link_of(move).latency);
    in_memory_[move.destination] += touched * bytes_of(move) / link_of(move).bandwidth;
}

void Estimate::Clocks::message(const Move& move) {
    const Link& link = link_of(move);
    const double sent = end_of(move.level, move.source).sent,
                 received = end_of(move.level, move.destination).received_crowded();
    const std::size_t outgoing = messages_[like(move.source)].sent,
                      incoming = messages_[like(move.destination)].received;
    const auto busy = [&](std::size_t messages) { return link.latency * message_share * double(messages); };
    const double latency = link.latency * (1 - message_share) + busy(std::max(outgoing, incoming));
    const double begun = now(move.source_clock);
    now(move.destination_clock);  // begins the strand, if it is its first phase
    finish(move.destination_clock, begun + latency + std::max(sent, received) / link.bandwidth);
    finish(move.source_clock, begun + busy(outgoing) + sent / link.bandwidth);
}

void Estimate::Clocks::advance_clocks() {
    for (const std::uint32_t clock : busy_) {
        Clock& own = clocks_[clock];
        own.time = std::max(own.time, std::exchange(own.later, 0));
        own.is_busy = false;
        for (std::uint32_t below = clock, above; (above = estimate_.clocks_[below].parent) != below;
             below = above)
            clocks_[above].time = std::max(clocks_[above].time, own.time);
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
            const Pass& pass = passes_[moves[i].destination_clock];
            finish(moves[i].destination_clock, pass.start + pass.latency + in_memory_[moves[i].destination]);
        }
    }
    advance_clocks();
    forget_round(begin, end);
}

void Estimate::Clocks::forget_round(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
        const Move& move = estimate_.moves_[i];
        for (const Rank rank : {move.source, move.destination}) {
            const std::size_t end_of_link = estimate_.end_of(move.level, rank);
            const Load load = std::exchange(loads_[end_of_link], {});
            carried_[end_of_link].sent += load.sent;
            carried_[end_of_link].received += load.received_crowded();
            messages_[rank] = {};
        }
        work_[move.destination].in_memory += std::exchange(in_memory_[move.destination], 0);
        passes_[move.destination_clock] = {};
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
    double last = until_all_is_done();
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) last = std::max(last, now(rank));
    return last;
}

double Estimate::Clocks::until_all_is_done() const {
    double last = 0;
    for (std::size_t i = 0; i < carried_.size(); ++i) {
        const Link& link = estimate_.links_[i / ranks_];
        last = std::max(last, std::max(carried_[i].sent, carried_[i].received) / link.bandwidth);
    }
    for (const Work& work : work_) last = std::max({last, work.sending, work.receiving, work.in_memory});
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
