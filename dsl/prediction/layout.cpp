#include "dsl/prediction/layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "dsl/base/diagnostic.hpp"
#include "dsl/prediction/costs.hpp"

namespace hocket::dsl {
namespace {

constexpr const char* laying_out_messages = "predicting: laying out messages";

// Turns pairs (index, item) into a list for each index.
void make_lists(std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs, std::size_t size,
                std::vector<std::size_t>& begin, std::vector<std::uint32_t>& items) {
    begin.assign(size + 1, 0);
    for (const auto& [index, item] : pairs) ++begin[index + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    items.resize(pairs.size());
    std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
    for (const auto& [index, item] : pairs) items[next[index]++] = item;
    pairs.clear();
    pairs.shrink_to_fit();
}

}  // namespace

MessageLayout::MessageLayout(const StepGraph& step_graph, const Network& its_network,
                             const PredictOptions& how)
    : graph(step_graph), network(its_network), options(how) {
    if (network.ranks() != graph.ranks)
        throw DiagnosticError(
            Span(), fmt::format("a network of {} ranks for a schedule of {}", network.ranks(), graph.ranks));
    if (graph.steps.size() >= nothing / 2)
        throw DiagnosticError(Span(), "a schedule of more than 2^31 steps is too large to predict");
    shares_.reserve(graph.regions.size());
    for (const Region& region : graph.regions)
        shares_.push_back(share_of(graph, region, options.value_bytes));
    for (const NetworkLink& link : network.links()) rates.push_back(link.rate);
    share_cores();
    if (options.symmetry) {
        classes_.emplace(network, *options.symmetry);
        for (int level = 0; level < static_cast<int>(network.topology().levels.size()); ++level)
            ends_.push_back(ranks_of_end(network.topology(), level));
    }
    if (options.tiles > 1)  // different rounds of tiles are on the links at once
        rounds_.assign(graph.steps.size(), 0);
    else if (!options.ideal)
        rounds_ = Rounds(graph, options.symmetry).of_steps(options.deadline, laying_out_messages);
    current_.assign(static_cast<std::size_t>(graph.ranks), nothing);
    current_phase_.assign(static_cast<std::size_t>(graph.ranks), 0);
    DeadlineCounter counter(options.deadline);
    const std::vector<Step>& steps = graph.steps;
    for (std::size_t begin = 0, end = 0; begin < steps.size(); begin = end) {
        while (end < steps.size() && steps[end].phase == steps[begin].phase) ++end;
        counter.note(begin, steps.size());
        counter.check(laying_out_messages, end - begin);
        add_phase(begin, end, counter);
    }
    counter.note(0, 0);
    make_lists(edges_, nodes(), after_begin_, after_);
    make_lists(waits_list_, nodes(), waits_begin_, waits_);
    progress_.clear();
    if (!options.ideal) order_by_round();
}

// The cores of a host with more ranks than cores do the work of several.
void MessageLayout::share_cores() {
    const Topology& topology = network.topology();
    const LinkId first = network.core_of(0);
    if (first >= most_links) return;
    const Rank local = ranks_over(topology, [&](int level) { return is_memory(topology.levels[level]); });
    const auto rate_of = [&](const Level& level) {
        return options.ideal ? level.bandwidth : crowded_bandwidth(level, local);
    };
    const double rate = rate_of(topology.levels[network.links()[first].level]);
    for (Rank rank = 0; rank < graph.ranks; ++rank) rates[network.core_of(rank)] = rate;
    const bool is_instant = network.spec().routing.latency == Routing::Latency::none;
    for (const Level& level : topology.levels)
        memory_.push_back({is_instant ? 0 : crowded_latency(level, local), rate / rate_of(level)});
}

// ---- Nodes -------------------------------------------------------------------------------------

MessageLayout::Progress& MessageLayout::progress(std::uint32_t strand, Rank rank) {
    const auto [entry, is_new] = progress_.try_emplace(std::uint64_t{strand} << 32 | std::uint32_t(rank));
    Progress& own = entry->second;
    if (is_new && strand != 0) {
        const Strand& definition = graph.strands[strand];
        if (Progress& parent = progress(definition.parent, rank); parent.block != definition.block) {
            parent.before = last_of(definition.parent, rank);
            parent.block = definition.block;
        }
        Progress& parent = progress(definition.parent, rank);
        parent.branches.push_back(strand);
        own.last = parent.before;
    }
    return own;
}

// Returns the nodes that the rank's next one in the strand waits for: if strands have branched off, the last
// of each.
std::vector<NodeId>& MessageLayout::last_of(std::uint32_t strand, Rank rank) {
    Progress& own = progress(strand, rank);
    if (!own.branches.empty()) {
        const std::vector<std::uint32_t> branches = std::move(own.branches);
        own.branches.clear();
        own.last.clear();
        for (const std::uint32_t branch : branches) {
            const std::vector<NodeId>& others = last_of(branch, rank);
            own.last.insert(own.last.end(), others.begin(), others.end());
        }
        std::sort(own.last.begin(), own.last.end());
        own.last.erase(std::unique(own.last.begin(), own.last.end()), own.last.end());
    }
    return own.last;
}

NodeId MessageLayout::node_of(std::uint32_t strand, Rank rank) {
    if (options.symmetry) rank = 0;
    const auto index = static_cast<std::size_t>(rank);
    if (std::exchange(current_phase_[index], phases_) == phases_) return current_[index];
    const auto node = static_cast<NodeId>(ranks_.size());
    ranks_.push_back(rank);
    std::vector<NodeId>& last = last_of(strand, rank);
    before.push_back(static_cast<std::uint32_t>(last.size()));
    parts.push_back(1);
    for (const NodeId other : last) edges_.emplace_back(other, node);
    last.assign(1, node);
    return current_[index] = node;
}

// ---- Messages ----------------------------------------------------------------------------------

std::uint32_t MessageLayout::path_between(Rank from, Rank to, DeadlineCounter& counter) {
    const std::uint64_t key = std::uint64_t(std::uint32_t(from)) << 32 | std::uint32_t(to);
    const auto [entry, is_new] = path_numbers_.try_emplace(key, static_cast<std::uint32_t>(paths.size()));
    if (!is_new) return entry->second;
    paths.push_back(path_of(from, to));
    const std::size_t hops = paths.back().hops.size();
    counter.check(laying_out_messages, hops);
    hops_ += hops;
    if (hops_ > most_hops)
        throw DiagnosticError(
            Span(), fmt::format("the ways of all messages are more than {} links together", most_hops),
            "predict it on fewer ranks, or on a network of fewer links between them");
    return entry->second;
}

Path MessageLayout::path_of(Rank from, Rank to) const {
    Route route = network.route(from, to);
    Path path{.hops = std::move(route.hops), .latency = route.latency};
    if (path.hops.empty()) return path;
    path.last = path.hops.size() - 1;
    path.last_share = path.hops.back().share;
    if (!classes_) return path;
    const LinkId last = path.hops.back().link;
    path.like_it = classes_->ranks_a_link(last);
    path.last_share *= path.like_it;
    path.hops = classes_->of_all(path.hops);
    const auto arrives = [&](const Hop& hop) { return hop.link == classes_->first(last); };
    path.last = static_cast<std::size_t>(std::find_if(path.hops.begin(), path.hops.end(), arrives) -
                                         path.hops.begin());
    return path;
}

// Of the messages that this one stands for, those that arrive by one link go to the ranks that share it.
void MessageLayout::add_senders(const Message& message, std::vector<std::uint64_t>& from) const {
    const auto add = [&](const Hop& first, Rank source) {
        // A message that spreads over several links is counted by its sender.
        const std::uint64_t sender =
            first.share == 1 ? first.link : most_links + static_cast<std::uint64_t>(source);
        if (from.size() < most_sources && std::find(from.begin(), from.end(), sender) == from.end())
            from.push_back(sender);
    };
    if (!classes_) return add(paths[message.path].hops.front(), message.source);
    const Path& path = paths[message.path];
    const NetworkLink& last = network.links()[path.hops[path.last].link];
    const bool is_shared = last.level >= 0 && last.kind != NetworkLink::Kind::memory;
    const std::vector<Rank> alone{0};
    const std::vector<Rank>& end = is_shared ? ends_[static_cast<std::size_t>(last.level)] : alone;
    for (const Rank rank : end) {
        if (from.size() == most_sources) return;
        const Rank source =
            options.symmetry->moved(network.topology(), message.source, message.destination, rank);
        add(network.route(source, rank).hops.front(), source);
    }
}

// In calibrated predictions a rank fetches at once all that it gets by memory in a phase.
bool MessageLayout::fetches(const Step& step) const {
    if (options.ideal || network.core_of(0) >= most_links) return false;
    return step.source == step.destination ||
           is_memory(network.topology().levels[network.level_between(step.source, step.destination)]);
}

// With a symmetry, each message is laid out once: a fetch where it arrives, others where they begin.
bool MessageLayout::is_laid_out(const Step& step, bool is_fetch) const {
    return !options.symmetry || (is_fetch ? step.destination : step.source) == 0;
}

void MessageLayout::add_phase(std::size_t begin, std::size_t end, DeadlineCounter& counter) {
    ++phases_;
    order_.clear();
    std::vector<std::uint32_t> fetched;
    for (std::size_t i = begin; i < end; ++i) {
        const Step& step = graph.steps[i];
        node_of(step.strand, step.source);
        node_of(step.strand, step.destination);
        const bool is_fetch = fetches(step);
        if (!is_laid_out(step, is_fetch)) continue;
        if (is_fetch)
            fetched.push_back(static_cast<std::uint32_t>(i));
        else if (step.source != step.destination)
            order_.push_back(i);
    }
    const auto pair_of = [&](std::uint64_t i) {
        return std::pair(graph.steps[i].source, graph.steps[i].destination);
    };
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::uint64_t a, std::uint64_t b) { return pair_of(a) < pair_of(b); });
    for (std::size_t i = 0; i < order_.size(); ++i) {
        const Step& step = graph.steps[order_[i]];
        if (i == 0 || pair_of(order_[i]) != pair_of(order_[i - 1])) {
            const NodeId from = node_of(step.strand, step.source);
            const NodeId to = node_of(step.strand, step.destination);
            ++parts[from], ++parts[to];
            waits_list_.emplace_back(from, static_cast<MessageId>(messages.size()));
            sources.push_back(1);
            const std::uint32_t path = path_between(step.source, step.destination, counter);
            messages.push_back({0, 0, paths[path].latency, step.source, step.destination, from, to,
                                step.origin, step.phase, rounds_.empty() ? 0 : rounds_[order_[i]], path,
                                network.level_between(step.source, step.destination), tile_of(step.strand)});
        }
        messages.back().flow = messages.back().moved += shares_[step.region];
    }
    const auto key = [&](std::uint32_t i) {
        return std::tuple(graph.steps[i].destination, graph.steps[i].target, i);
    };
    std::sort(fetched.begin(), fetched.end(),
              [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
    for (std::size_t first = 0, last = 0; first < fetched.size(); first = last) {
        while (last < fetched.size() &&
               graph.steps[fetched[last]].destination == graph.steps[fetched[first]].destination)
            ++last;
        add_fetch({fetched.data() + first, last - first}, counter);
    }
}

// The steps of one phase to one rank, region by region. The fetch begins when all its sources are ready.
void MessageLayout::add_fetch(std::span<const std::uint32_t> steps, DeadlineCounter& counter) {
    const Step& first = graph.steps[steps[0]];
    const Rank destination = first.destination;
    const auto id = static_cast<MessageId>(messages.size());
    Message fetch{0,
                  0,
                  0,
                  destination,
                  destination,
                  nothing,
                  node_of(first.strand, destination),
                  first.origin,
                  first.phase,
                  rounds_[steps[0]],
                  path_between(destination, destination, counter),
                  -1,
                  tile_of(first.strand)};
    std::vector<NodeId> waits{fetch.to};
    double from_itself = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const Step& step = graph.steps[steps[i]];
        const bool again = i > 0 && graph.steps[steps[i - 1]].target == step.target;
        int level = network.links()[network.core_of(destination)].level;
        if (step.source != destination) {
            level = network.level_between(step.source, destination);
            fetch.source = step.source;
            fetch.latency = std::max(fetch.latency, memory_[level].latency);
        }
        fetch.level = std::max(fetch.level, level);
        (step.source == destination ? from_itself : fetch.moved) += shares_[step.region];
        fetch.flow += touched_bytes(step.combines, again) * shares_[step.region] * memory_[level].scale;
        waits.push_back(node_of(step.strand, step.source));
    }
    if (fetch.is_calculation()) fetch.moved = from_itself;
    ++parts[fetch.to];
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    for (const NodeId node : waits) waits_list_.emplace_back(node, id);
    if (!fetch.is_calculation()) fetch.fetched_from = static_cast<std::uint32_t>(waits.size() - 1);
    sources.push_back(static_cast<std::uint32_t>(waits.size()));
    messages.push_back(fetch);
}

void MessageLayout::order_by_round() {
    for (MessageId id = 0; id < messages.size(); ++id)
        if (!messages[id].is_fetch()) by_round.push_back(id);
    std::stable_sort(by_round.begin(), by_round.end(),
                     [&](MessageId a, MessageId b) { return messages[a].round < messages[b].round; });
}

}  // namespace hocket::dsl
