#include "dsl/prediction/fabrics.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {

using LinkKind = NetworkLink::Kind;

void add_link(std::vector<NetworkLink>& links, NetworkLink link) {
    if (links.size() >= most_links)
        throw DiagnosticError(Span(), fmt::format("a network of more than {} links", most_links));
    if (!(link.rate > 0) || std::isinf(link.rate))
        throw DiagnosticError(Span(),
                              fmt::format("link {}: a rate of {} bytes a second", link.name, link.rate),
                              "a rate must be finite and more than 0, also the sum of many: 10Gb/s");
    links.push_back(std::move(link));
}

// The finisher of splitmix64.
std::uint64_t drawn(std::uint64_t seed, std::uint64_t number) {
    std::uint64_t z = number + 0x9e3779b97f4a7c15 * (seed + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

namespace {

std::string named(const FabricPlace& place, const std::string& rest) {
    return place.prefix.empty() ? rest : place.prefix + " " + rest;
}

// Adds a link up and a link down for each end; the ids follow each other. The latency is counted going up.
// above, below: for an end the vertex that its link up leads to, and the one that its link down comes from.
template <typename Above, typename Below>
LinkId add_ends(const FabricPlace& place, std::vector<NetworkLink>& links, double latency_down, Above above,
                Below below) {
    const auto first = static_cast<LinkId>(links.size());
    for (std::size_t i = 0; i < place.ends.size(); ++i) {
        const std::string& end = place.ends[i];
        const double rate = place.rates.empty() ? place.rate : place.rates[i];
        const Vertex at = place.vertices[i];
        add_link(links, {named(place, end + " up"), rate, place.latency, LinkKind::up, place.level, 0, at,
                         above(i)});
        add_link(links, {named(place, end + " down"), rate, latency_down, LinkKind::down, place.level, 0,
                         below(i), at});
    }
    return first;
}

class Crossbar final : public Fabric {
  public:
    Crossbar(const FabricSpec& spec, const FabricPlace& place, const FabricSums& sums)
        : latency_(place.latency) {
        // A switch that blocks has a side where messages enter it, and one where they leave.
        const bool blocks = spec.oversubscription > 1;
        const Vertex inlet = sums.vertices, outlet = inlet + 1;
        const auto hub = [&](std::size_t i) { return place.hubs.empty() ? inlet : place.hubs[i]; };
        if (place.hubs.empty()) sums.vertices += blocks ? 2 : 1;
        std::vector<NetworkLink>& links = sums.links;
        first_ = add_ends(place, links, 0, hub, [&](std::size_t i) { return blocks ? outlet : hub(i); });
        if (!blocks) return;
        inside_ = static_cast<LinkId>(links.size());
        is_blocking_ = true;
        add_link(links, {named(place, "switch"),
                         place.rate * static_cast<double>(place.ends.size()) / spec.oversubscription, 0,
                         LinkKind::trunk, place.level, 0, inlet, outlet});
    }

    void route(std::size_t from, std::size_t to, const Routing&, std::uint64_t,
               RoutePath& path) const override {
        path.add(first_ + static_cast<LinkId>(2 * from), latency_);
        if (is_blocking_) path.add(inside_, 0);
        path.add(first_ + static_cast<LinkId>(2 * to + 1), 0);
    }

  private:
    LinkId first_ = 0, inside_ = 0;
    double latency_;
    bool is_blocking_ = false;
};

// A ring is a torus of one dimension. Messages go along one dimension after the other, the first one first.
class Torus final : public Fabric {
  public:
    Torus(std::vector<std::int64_t> sizes, const FabricPlace& place, std::vector<NetworkLink>& links)
        : sizes_(std::move(sizes)), latency_(place.latency), first_(static_cast<LinkId>(links.size())) {
        for (std::size_t node = 0; node < place.ends.size(); ++node)
            for (std::size_t dimension = 0, stride = 1; dimension < sizes_.size(); ++dimension) {
                for (const std::int64_t step : {1, -1}) {
                    const std::size_t there = next(node, dimension, stride, step);
                    add_link(links,
                             {named(place, fmt::format("{} to {}", place.ends[node], place.ends[there])),
                              place.rate, place.latency, LinkKind::cable, place.level,
                              static_cast<std::uint32_t>(2 * dimension + (step < 0)), place.vertices[node],
                              place.vertices[there]});
                }
                stride *= static_cast<std::size_t>(sizes_[dimension]);
            }
    }

    void route(std::size_t from, std::size_t to, const Routing& routing, std::uint64_t key,
               RoutePath& path) const override {
        std::size_t stride = 1;
        for (std::size_t dimension = 0; dimension < sizes_.size(); ++dimension) {
            const auto size = static_cast<std::size_t>(sizes_[dimension]);
            const std::size_t up = (to / stride % size + size - from / stride % size) % size,
                              down = size - up;
            const bool both = up == down && size > 2;
            const bool drawn_up = (key >> dimension % 64 & 1) != 0;
            const bool spreads = both && routing.paths == Routing::Paths::spread;
            if (spreads) {
                go(from, dimension, stride, 1, up, 0.5, path);
                const double total = path.total;
                go(from, dimension, stride, -1, down, 0.5, path);
                path.total = total;  // both ways are equally long
            } else if (both ? drawn_up : up <= down) {
                go(from, dimension, stride, 1, up, 1, path);
            } else {
                go(from, dimension, stride, -1, down, 1, path);
            }
            from += (to / stride % size) * stride - (from / stride % size) * stride;
            stride *= size;
        }
    }

  private:
    std::size_t next(std::size_t node, std::size_t dimension, std::size_t stride, std::int64_t step) const {
        const auto size = static_cast<std::size_t>(sizes_[dimension]);
        const std::size_t at = node / stride % size,
                          then = (at + size + static_cast<std::size_t>(step)) % size;
        return node - at * stride + then * stride;
    }

    void go(std::size_t node, std::size_t dimension, std::size_t stride, std::int64_t step, std::size_t steps,
            double share, RoutePath& path) const {
        for (; steps > 0; --steps) {
            path.add(first_ + static_cast<LinkId>((node * sizes_.size() + dimension) * 2 + (step < 0)),
                     latency_, share);
            node = next(node, dimension, stride, step);
        }
    }

    std::vector<std::int64_t> sizes_;
    double latency_;
    LinkId first_;
};

class Mesh final : public Fabric {
  public:
    Mesh(const FabricPlace& place, std::vector<NetworkLink>& links)
        : ends_(place.ends.size()), latency_(place.latency), first_(static_cast<LinkId>(links.size())) {
        for (std::size_t from = 0; from < ends_; ++from)
            for (std::size_t to = 0; to < ends_; ++to)
                if (from != to)
                    add_link(links, {named(place, fmt::format("{} to {}", place.ends[from], place.ends[to])),
                                     place.rate, place.latency, LinkKind::cable, place.level,
                                     static_cast<std::uint32_t>((to + ends_ - from) % ends_),
                                     place.vertices[from], place.vertices[to]});
    }

    void route(std::size_t from, std::size_t to, const Routing&, std::uint64_t,
               RoutePath& path) const override {
        path.add(first_ + static_cast<LinkId>(from * (ends_ - 1) + to - (to > from)), latency_);
    }

  private:
    std::size_t ends_;
    double latency_;
    LinkId first_;
};

// k ports: k pods of k/2 edge and k/2 aggregation switches, k/2 ends at an edge, and k*k/4 cores. If messages
// are spread, all links from a switch to the next tier carry the same, and count as one.
class FatTree final : public Fabric {
  public:
    FatTree(const FabricSpec& spec, const FabricPlace& place, bool spreads, const FabricSums& sums)
        : half_(static_cast<std::size_t>(spec.ports) / 2), spreads_(spreads), latency_(place.latency) {
        std::vector<NetworkLink>& links = sums.links;
        const std::size_t edges = (place.ends.size() + half_ - 1) / half_, pods = (edges + half_ - 1) / half_;
        const std::size_t ways = spreads ? 1 : half_;
        const double bundle = spreads ? static_cast<double>(half_) : 1;
        // The vertices: edge switches, aggregation switches, cores. Where links count as one, so do the
        // switches that they lead to.
        const auto first_edge = sums.vertices, first_pod = first_edge + static_cast<Vertex>(edges),
                   first_core = first_pod + static_cast<Vertex>(pods * ways);
        sums.vertices = first_core + static_cast<Vertex>(ways * ways);
        const auto edge_of = [&](std::size_t end) { return first_edge + static_cast<Vertex>(end / half_); };
        hosts_ = add_ends(place, links, place.latency, edge_of, edge_of);
        edge_ = static_cast<LinkId>(links.size());
        for (std::size_t i = 0; i < edges * ways; ++i)
            pair(place, fmt::format("edge {}{}", i / ways, spreads ? "" : fmt::format(".{}", i % ways)),
                 place.rate * bundle / spec.oversubscription, first_edge + static_cast<Vertex>(i / ways),
                 first_pod + static_cast<Vertex>(i / ways / half_ * ways + i % ways), links);
        pod_ = static_cast<LinkId>(links.size());
        for (std::size_t i = 0; i < pods * ways * ways; ++i)
            pair(place,
                 fmt::format("pod {}{}", i / (ways * ways),
                             spreads ? "" : fmt::format(".{}", i % (ways * ways))),
                 place.rate * bundle * bundle,
                 first_pod + static_cast<Vertex>(i / (ways * ways) * ways + i % (ways * ways) / ways),
                 first_core + static_cast<Vertex>(i % (ways * ways)), links);
    }

    void route(std::size_t from, std::size_t to, const Routing&, std::uint64_t key,
               RoutePath& path) const override {
        path.add(hosts_ + static_cast<LinkId>(2 * from), latency_);
        const std::size_t edge = from / half_, other_edge = to / half_;
        const std::size_t ways = spreads_ ? 1 : half_;
        const std::size_t aggregation = key % ways, core = aggregation * ways + key / ways % ways;
        if (edge != other_edge) {
            path.add(up(edge_, edge * ways + aggregation), latency_);
            if (edge / half_ != other_edge / half_) {
                path.add(up(pod_, edge / half_ * ways * ways + core), latency_);
                path.add(up(pod_, other_edge / half_ * ways * ways + core) + 1, latency_);
            }
            path.add(up(edge_, other_edge * ways + aggregation) + 1, latency_);
        }
        path.add(hosts_ + static_cast<LinkId>(2 * to + 1), latency_);
    }

  private:
    static LinkId up(LinkId first, std::size_t number) { return first + static_cast<LinkId>(2 * number); }

    void pair(const FabricPlace& place, const std::string& name, double rate, Vertex low, Vertex high,
              std::vector<NetworkLink>& links) const {
        add_link(links,
                 {named(place, name + " up"), rate, latency_, LinkKind::trunk, place.level, 0, low, high});
        add_link(links,
                 {named(place, name + " down"), rate, latency_, LinkKind::trunk, place.level, 0, high, low});
    }

    std::size_t half_;
    bool spreads_;
    double latency_;
    LinkId hosts_ = 0, edge_ = 0, pod_ = 0;
};

[[noreturn]] void refuse(const FabricSpec& spec, const std::string& why, const std::string& hint = "") {
    throw DiagnosticError(Span(), fmt::format("{}: {}", spec.text, why), hint);
}

std::unique_ptr<const Fabric> make_torus(const FabricSpec& spec, const FabricPlace& place,
                                         std::vector<NetworkLink>& links) {
    std::vector<std::int64_t> sizes = spec.sizes;
    if (spec.kind == FabricSpec::Kind::ring) sizes = {static_cast<std::int64_t>(place.ends.size())};
    std::int64_t product = 1;
    for (const std::int64_t size : sizes) {
        if (size < 1 || size > most_ranks / product)
            refuse(spec, fmt::format("a dimension of {}", size), "a torus has at most 1048576 ranks");
        product *= size;
    }
    if (product != static_cast<std::int64_t>(place.ends.size()))
        refuse(spec, fmt::format("{} places for {} ends", product, place.ends.size()),
               "the sizes of a torus multiply to the number of ranks that it joins");
    return std::make_unique<Torus>(std::move(sizes), place, links);
}

std::unique_ptr<const Fabric> make_fat_tree(const FabricSpec& spec, const FabricPlace& place, bool spreads,
                                            const FabricSums& sums) {
    if (spec.ports < 2 || spec.ports > 128 || spec.ports % 2 != 0)
        refuse(spec, fmt::format("switches of {} ports", spec.ports), "2 to 128 ports, an even number");
    const auto ports = static_cast<std::size_t>(spec.ports), room = ports * ports * ports / 4;
    if (place.ends.size() > room)
        refuse(spec, fmt::format("{} ends, and room for {}", place.ends.size(), room),
               "switches of k ports make a fat-tree for k * k * k / 4");
    sums.switches += 5 * ports * ports / 4;
    return std::make_unique<FatTree>(spec, place, spreads, sums);
}

}  // namespace

std::unique_ptr<const Fabric> make_fabric(const FabricSpec& spec, const FabricPlace& place, bool spreads,
                                          const FabricSums& sums) {
    switch (spec.kind) {
        case FabricSpec::Kind::ring:
        case FabricSpec::Kind::torus:
            return make_torus(spec, place, sums.links);
        case FabricSpec::Kind::mesh:
            return std::make_unique<Mesh>(place, sums.links);
        case FabricSpec::Kind::fat_tree:
            return make_fat_tree(spec, place, spreads, sums);
        case FabricSpec::Kind::crossbar:
            break;
    }
    ++sums.switches;
    return std::make_unique<Crossbar>(spec, place, sums);
}

}  // namespace hocket::dsl
