// Graphs that are given link by link.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <optional>
#include <queue>

#include "dsl/base/diagnostic.hpp"
#include "dsl/prediction/fabrics.hpp"

namespace hocket::dsl {
namespace {

constexpr std::uint16_t unreachable = std::numeric_limits<std::uint16_t>::max();
constexpr std::size_t most_distances = std::size_t{1} << 28;  // ranks by vertices: half a GiB
constexpr std::size_t most_looks = std::size_t{1} << 31;      // ranks by links: some seconds

struct Edge {
    Vertex from, to;
    LinkId link;
    double latency;
};

class Graph final : public Fabric {
  public:
    Graph(std::vector<Edge> edges, std::size_t ranks, std::size_t vertices);

    void route(std::size_t from, std::size_t to, const Routing& routing, std::uint64_t key,
               RoutePath& path) const override;
    // Returns the steps to `to`, or `unreachable`.
    std::uint16_t distance(std::size_t from, std::size_t to) const {
        return distances_[to * vertices_ + from];
    }

  private:
    void find_distances(std::size_t to);
    // The flow that passes a vertex, and the longest way to it.
    struct Passing {
        double share = 0, total = 0;
    };
    void drawn_path(Vertex at, Vertex to, std::uint64_t key, RoutePath& path) const;
    void spread_paths(Vertex from, Vertex to, RoutePath& path) const;

    std::size_t ranks_, vertices_;
    std::vector<Edge> edges_;                // by the vertex that they leave
    std::vector<std::size_t> first_;         // of a vertex
    std::vector<std::vector<Vertex>> back_;  // by vertex: those with an edge to it
    std::vector<std::uint16_t> distances_;
};

Graph::Graph(std::vector<Edge> edges, std::size_t ranks, std::size_t vertices)
    : ranks_(ranks), vertices_(vertices), edges_(std::move(edges)), first_(vertices + 1, 0), back_(vertices) {
    if (vertices_ >= unreachable || ranks_ * vertices_ > most_distances ||
        ranks_ * edges_.size() > most_looks)
        throw DiagnosticError(Span(),
                              fmt::format("a graph of {} vertices, {} links and {} ranks is too large",
                                          vertices_, edges_.size(), ranks_),
                              "larger clusters have regular kinds: fattree, torus, switch");
    std::stable_sort(edges_.begin(), edges_.end(),
                     [](const Edge& a, const Edge& b) { return a.from < b.from; });
    for (const Edge& edge : edges_) {
        ++first_[edge.from + 1];
        back_[edge.to].push_back(edge.from);
    }
    for (std::size_t i = 0; i < vertices_; ++i) first_[i + 1] += first_[i];
    distances_.assign(ranks_ * vertices_, unreachable);
    for (std::size_t to = 0; to < ranks_; ++to) find_distances(to);
}

void Graph::find_distances(std::size_t to) {
    std::uint16_t* const distance = distances_.data() + to * vertices_;
    distance[to] = 0;
    std::queue<Vertex> reached({static_cast<Vertex>(to)});
    for (; !reached.empty(); reached.pop())
        for (const Vertex before : back_[reached.front()])
            if (distance[before] == unreachable) {
                distance[before] = static_cast<std::uint16_t>(distance[reached.front()] + 1);
                reached.push(before);
            }
}

void Graph::route(std::size_t from, std::size_t to, const Routing& routing, std::uint64_t key,
                  RoutePath& path) const {
    if (routing.paths == Routing::Paths::hash)
        drawn_path(static_cast<Vertex>(from), static_cast<Vertex>(to), key, path);
    else
        spread_paths(static_cast<Vertex>(from), static_cast<Vertex>(to), path);
}

void Graph::drawn_path(Vertex at, Vertex to, std::uint64_t key, RoutePath& path) const {
    while (at != to) {
        const auto goes_on = [&](std::size_t i) {
            return distance(edges_[i].to, to) + 1 == distance(at, to);
        };
        std::size_t choices = 0;
        for (std::size_t i = first_[at]; i < first_[at + 1]; ++i) choices += goes_on(i) ? 1 : 0;
        key = drawn(key, at);
        std::size_t left = key % choices, i = first_[at];
        while (!goes_on(i) || left-- > 0) ++i;
        path.add(edges_[i].link, edges_[i].latency);
        at = edges_[i].to;
    }
}

// Every vertex divides what it gets equally among its shortest ways on.
void Graph::spread_paths(Vertex from, Vertex to, RoutePath& path) const {
    std::map<Vertex, Passing> tier{{from, {1, 0}}};
    const double before = path.total;
    while (tier.begin()->first != to) {
        std::map<Vertex, Passing> next;
        for (const auto& [at, passing] : tier) {
            std::size_t choices = 0;
            for (std::size_t i = first_[at]; i < first_[at + 1]; ++i)
                choices += distance(edges_[i].to, to) + 1 == distance(at, to) ? 1 : 0;
            for (std::size_t i = first_[at]; i < first_[at + 1]; ++i) {
                const Edge& edge = edges_[i];
                if (distance(edge.to, to) + 1 != distance(at, to)) continue;
                const double share = passing.share / static_cast<double>(choices);
                path.add(edge.link, edge.latency, share);
                Passing& there = next[edge.to];
                there.share += share;
                there.total = std::max(there.total, passing.total + edge.latency);
            }
        }
        tier = std::move(next);
    }
    path.total = before + tier.begin()->second.total;
}

// Returns the number of a rank; of a switch, nothing.
std::optional<std::int64_t> rank_named(const std::string& name) {
    std::int64_t rank = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
    if (end != name.data() + name.size() || name.empty() || name[0] == '-') return std::nullopt;
    return error == std::errc() ? rank : most_ranks;
}

}  // namespace

std::unique_ptr<const Fabric> make_graph(const std::vector<GraphLink>& graph, Rank ranks,
                                         const FabricSums& sums) {
    std::map<std::string, Vertex> names;
    const auto vertex_of = [&](const std::string& name) {
        const std::optional<std::int64_t> rank = rank_named(name);
        if (!rank)
            return names.try_emplace(name, static_cast<Vertex>(ranks) + static_cast<Vertex>(names.size()))
                .first->second;
        if (*rank >= ranks)
            throw DiagnosticError(Span(), fmt::format("link: there is no rank {}", name),
                                  fmt::format("ranks are 0 to {}; a switch's name is no number", ranks - 1));
        return static_cast<Vertex>(*rank);
    };
    std::vector<Edge> edges;
    for (const GraphLink& link : graph) {
        const Vertex from = vertex_of(link.from), to = vertex_of(link.to);
        if (from == to)
            throw DiagnosticError(Span(),
                                  fmt::format("link {} {}: from a vertex to itself", link.from, link.to));
        edges.push_back({from, to, static_cast<LinkId>(sums.links.size()), link.latency});
        add_link(sums.links, {link.from + " to " + link.to, link.rate, link.latency, NetworkLink::Kind::cable,
                              -1, 0, from, to});
    }
    sums.switches += names.size();
    sums.vertices += static_cast<Vertex>(names.size());
    auto result = std::make_unique<Graph>(std::move(edges), static_cast<std::size_t>(ranks),
                                          static_cast<std::size_t>(ranks) + names.size());
    for (Rank rank = 1; rank < ranks; ++rank)
        for (const auto& [from, to] : {std::pair(0, rank), {rank, 0}})
            if (result->distance(static_cast<std::size_t>(from), static_cast<std::size_t>(to)) == unreachable)
                throw DiagnosticError(Span(),
                                      fmt::format("there is no way from rank {} to rank {}", from, to),
                                      "links go both ways unless they say `one way`");
    return result;
}

}  // namespace hocket::dsl
