#include "dsl/prediction/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dsl/base/diagnostic.hpp"
#include "dsl/prediction/costs.hpp"
#include "dsl/prediction/fabrics.hpp"

namespace hocket::dsl {

std::string_view name_of(NetworkLink::Kind kind) {
    constexpr std::string_view names[] = {"up", "down", "trunk", "cable", "memory"};
    return names[static_cast<std::size_t>(kind)];
}

// The fabrics of one level. The coordinates in some levels choose the fabric, those in others the end.
struct Network::LevelFabrics {
    std::vector<int> choosing, numbering;
    bool joins_inner = false;  // ends that also differ in inner levels are joined directly
    std::vector<std::unique_ptr<const Fabric>> fabrics;  // none for memory
};

namespace {

// A rank's number among those that differ in these levels only.
std::size_t number_over(const Topology& topology, const std::vector<int>& levels, Rank rank) {
    std::size_t number = 0, stride = 1;
    for (const int level : levels) {
        number += stride * static_cast<std::size_t>(topology.coordinate(rank, level));
        stride *= static_cast<std::size_t>(topology.levels[level].size);
    }
    return number;
}

std::size_t size_over(const Topology& topology, const std::vector<int>& levels) {
    std::size_t size = 1;
    for (const int level : levels) size *= static_cast<std::size_t>(topology.levels[level].size);
    return size;
}

// The lowest rank with these numbers.
Rank rank_with(const Topology& topology, const std::vector<int>& levels, std::size_t number) {
    Rank rank = 0;
    for (const int level : levels) {
        const auto size = static_cast<std::size_t>(topology.levels[level].size);
        rank += static_cast<Rank>(number % size) * topology.stride(level);
        number /= size;
    }
    return rank;
}

void check_figures(const std::string& what, double rate, double latency) {
    if (!(rate > 0) || std::isinf(rate))
        throw DiagnosticError(Span(), fmt::format("{}: a rate of {} bytes a second", what, rate),
                              "a rate must be finite and more than 0: 10Gb/s");
    if (!(latency >= 0) || std::isinf(latency))
        throw DiagnosticError(Span(), fmt::format("{}: a latency of {} s", what, latency),
                              "a latency must be finite and 0 or more: 5us");
}

}  // namespace

Network::~Network() = default;
Network::Network(Network&&) noexcept = default;
Network& Network::operator=(Network&&) noexcept = default;

Network::Network(const Topology& topology, NetworkSpec spec)
    : topology_(topology), spec_(std::move(spec)), vertices_(static_cast<Vertex>(topology_.ranks())) {
    if (!spec_.graph.empty()) {
        for (const GraphLink& link : spec_.graph)
            check_figures(fmt::format("link {} {}", link.from, link.to), link.rate, link.latency);
        whole_ = make_graph(spec_.graph, ranks(), {links_, switches_, vertices_});
    } else if (!spec_.whole.empty()) {
        add_whole(spec_.whole.front());
    } else {
        spec_.levels.resize(topology_.levels.size());
        add_cores();
        for (int level = 0; level < static_cast<int>(topology_.levels.size()); ++level) add_level(level);
    }
}

void Network::add_cores() {
    for (int level = 0; level < static_cast<int>(topology_.levels.size()); ++level) {
        const Level& memory = topology_.levels[level];
        if (memory.medium != Medium::memory) continue;
        check_figures("level " + memory.name, memory.bandwidth, memory.latency);
        if (core_level_ >= 0) continue;
        core_level_ = level;
        first_core_ = static_cast<LinkId>(links_.size());
        const std::vector<int> hosts = apart(level);
        const Vertex first_host = vertices_;
        vertices_ += static_cast<Vertex>(size_over(topology_, hosts));
        for (Rank rank = 0; rank < ranks(); ++rank) {
            const auto host = first_host + static_cast<Vertex>(number_over(topology_, hosts, rank));
            free_ways_.emplace_back(static_cast<Vertex>(rank), host);
            add_link(links_, {fmt::format("{} {} core", memory.name, rank), memory.bandwidth, memory.latency,
                              NetworkLink::Kind::memory, level, 0, host, static_cast<Vertex>(rank)});
        }
    }
}

// Returns the levels of which no coordinate changes where a message takes this level's way alone.
std::vector<int> Network::apart(int level) const {
    const bool by_digits = spec_.routing.order == Routing::Order::digits;
    const bool memory = is_memory(topology_.levels[level]);
    const std::vector<int> sharing = sharing_levels(topology_, level);
    std::vector<int> levels;
    for (int other = 0; other < static_cast<int>(topology_.levels.size()); ++other) {
        const bool shares = std::find(sharing.begin(), sharing.end(), other) != sharing.end();
        if (other == level || shares || (is_memory(topology_.levels[other]) && !(by_digits && !memory)))
            continue;
        if (memory || by_digits || other > level) levels.push_back(other);
    }
    return levels;
}

Vertex Network::vertex_of_end(const std::vector<Rank>& sharing) {
    if (sharing.size() == 1) return static_cast<Vertex>(sharing[0]);
    for (const Rank rank : sharing) {
        free_ways_.emplace_back(static_cast<Vertex>(rank), vertices_);
        free_ways_.emplace_back(vertices_, static_cast<Vertex>(rank));
    }
    return vertices_++;
}

void Network::add_level(int level) {
    LevelFabrics& fabrics = levels_.emplace_back();
    if (is_memory(topology_.levels[level])) return;
    const FabricSpec& spec = spec_.levels[static_cast<std::size_t>(level)];
    const Level& own = topology_.levels[level];
    // Of hosts with different numbers of ranks, each rank has a link, with its share of its host's.
    const double sharers = own.hosts.empty() ? 1 : *std::max_element(own.hosts.begin(), own.hosts.end());
    const double rate = spec.rate > 0 ? spec.rate : own.bandwidth / sharers;
    const double latency = spec.latency >= 0 ? spec.latency : own.latency;
    check_figures("level " + own.name, rate, latency);
    using Kind = FabricSpec::Kind;
    const bool is_switch = spec.kind == Kind::crossbar || spec.kind == Kind::fat_tree;
    const bool is_plain = spec.kind == Kind::crossbar && spec.oversubscription <= 1;
    fabrics.joins_inner = is_switch && spec_.routing.order == Routing::Order::outermost;
    const std::vector<int> sharing = sharing_levels(topology_, level);
    for (int other = 0; other < static_cast<int>(topology_.levels.size()); ++other) {
        if (std::find(sharing.begin(), sharing.end(), other) != sharing.end()) continue;
        // A non-blocking switch is only its ends, so one does for all.
        const bool numbers = is_plain || other == level ||
                             (fabrics.joins_inner && (other < level || is_memory(topology_.levels[other])));
        (numbers ? fabrics.numbering : fabrics.choosing).push_back(other);
    }
    const Group alike = make_group(topology_, sharing);
    const std::vector<int> apart = this->apart(level);
    std::vector<Vertex> hubs;  // of non-blocking switches, which are one fabric
    if (is_plain)
        for (std::size_t i = 0; i < size_over(topology_, apart); ++i) hubs.push_back(vertices_++);
    const std::size_t count = size_over(topology_, fabrics.choosing);
    const std::size_t ends = size_over(topology_, fabrics.numbering);
    for (std::size_t i = 0; i < count; ++i) {
        const Rank base = rank_with(topology_, fabrics.choosing, i);
        FabricPlace place{
            own.name + (count > 1 ? fmt::format(" of {}", base) : ""), {}, rate, latency, level};
        for (std::size_t end = 0; end < ends; ++end) {
            const Rank rank = base + rank_with(topology_, fabrics.numbering, end);
            place.ends.push_back(std::to_string(rank));
            place.vertices.push_back(vertex_of_end(members_of(topology_, alike, rank)));
            if (is_plain) place.hubs.push_back(hubs[number_over(topology_, apart, rank)]);
        }
        for (const EndRate& end : spec_.ends)
            if (end.level == level && number_over(topology_, fabrics.choosing, Rank(end.rank)) == i) {
                place.rates.resize(ends, rate);
                place.rates[number_over(topology_, fabrics.numbering, Rank(end.rank))] = end.rate;
            }
        std::size_t switches = 0;
        fabrics.fabrics.push_back(make_fabric(spec, place, spreads(), {links_, switches, vertices_}));
        switches_ += is_plain ? ends / static_cast<std::size_t>(own.size) : switches;
    }
}

void Network::add_whole(const FabricSpec& spec) {
    const Level usual;
    FabricPlace place{"",
                      {},
                      spec.rate > 0 ? spec.rate : usual.bandwidth,
                      spec.latency >= 0 ? spec.latency : usual.latency,
                      -1};
    check_figures(spec.text, place.rate, place.latency);
    for (Rank rank = 0; rank < ranks(); ++rank) {
        place.ends.push_back(std::to_string(rank));
        place.vertices.push_back(static_cast<Vertex>(rank));
    }
    whole_ = make_fabric(spec, place, spreads(), {links_, switches_, vertices_});
}

int Network::level_between(Rank a, Rank b) const {
    return dsl::level_between(topology_, a, b);
}

LinkId Network::core_of(Rank rank) const {
    return core_level_ < 0 ? static_cast<LinkId>(most_links) : first_core_ + static_cast<LinkId>(rank);
}

void Network::pass(int level, Rank from, Rank to, std::uint64_t key, RoutePath& path) const {
    const LevelFabrics& level_fabrics = levels_[static_cast<std::size_t>(level)];
    const Level& own = topology_.levels[level];
    if (own.medium == Medium::memory)  // the receiver fetches
        return path.add(core_of(to), own.latency, topology_.levels[core_level_].bandwidth / own.bandwidth);
    const std::size_t begin = number_over(topology_, level_fabrics.numbering, from),
                      end = number_over(topology_, level_fabrics.numbering, to);
    if (begin == end) return;
    level_fabrics.fabrics[number_over(topology_, level_fabrics.choosing, from)]->route(
        begin, end, spec_.routing, key, path);
}

// Between ends that the level does not join, ranks pass the message on inside first.
void Network::outermost(Rank from, Rank to, std::uint64_t key, RoutePath& path) const {
    const int level = level_between(from, to);
    const LevelFabrics& fabrics = levels_[static_cast<std::size_t>(level)];
    Rank via = from;
    if (!fabrics.joins_inner && !is_memory(topology_.levels[level])) {
        for (const int other : fabrics.choosing)
            via += (topology_.coordinate(to, other) - topology_.coordinate(via, other)) *
                   topology_.stride(other);
        if (via != from) outermost(from, via, key, path);
    }
    pass(level, via, to, key, path);
}

Route Network::route(Rank from, Rank to) const {
    if (from == to) return {};
    RoutePath path;
    const std::uint64_t key =
        drawn(spec_.routing.seed, std::uint64_t(std::uint32_t(from)) << 32 | std::uint32_t(to));
    if (whole_) {
        whole_->route(static_cast<std::size_t>(from), static_cast<std::size_t>(to), spec_.routing, key, path);
    } else if (spec_.routing.order == Routing::Order::outermost) {
        outermost(from, to, key, path);
    } else {
        Rank at = from;
        for (int level = 0; level < static_cast<int>(topology_.levels.size()); ++level) {
            const Rank distance = topology_.coordinate(to, level) - topology_.coordinate(at, level);
            if (distance == 0) continue;
            const Rank next = at + distance * topology_.stride(level);
            pass(level, at, next, key, path);
            at = next;
        }
    }
    using Latency = Routing::Latency;
    const Latency latency = spec_.routing.latency;
    return {std::move(path.hops), latency == Latency::message ? path.longest
                                  : latency == Latency::hop   ? path.total
                                                              : 0};
}

}  // namespace hocket::dsl
