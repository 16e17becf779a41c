// The links of a cluster, and the way of a message over them. Prediction lets messages share these links.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsl/graph/topology.hpp"
#include "dsl/prediction/network_spec.hpp"

namespace hocket::dsl {

class Fabric;
struct RoutePath;

// Immutable, thread-safe.
class Network {
  public:
    // Throws DiagnosticError if a rank can't reach another, if a kind does not fit the number of ranks, or
    // for a network of more than most_links.
    explicit Network(const Topology& topology, NetworkSpec spec = {});
    ~Network();
    Network(Network&&) noexcept;
    Network& operator=(Network&&) noexcept;

    Rank ranks() const { return topology_.ranks(); }
    const Topology& topology() const { return topology_; }
    const NetworkSpec& spec() const { return spec_; }
    const std::vector<NetworkLink>& links() const { return links_; }
    std::size_t switches() const { return switches_; }
    // Returns the number of places where links begin and end.
    Vertex vertices() const { return vertices_; }
    // Returns the ways of ranks to ends that they share, to their host's memory, and back: they cost nothing.
    const std::vector<std::pair<Vertex, Vertex>>& free_ways() const { return free_ways_; }

    Route route(Rank from, Rank to) const;
    // Returns the level by which the engine joins two ranks: the outermost in which they differ; one of
    // medium memory only if no other differs.
    int level_between(Rank a, Rank b) const;
    // Returns the link for what a rank moves within its buffers; most_links if there is none: the topology
    // has no memory, or the network is given as a whole.
    LinkId core_of(Rank rank) const;

  private:
    struct LevelFabrics;

    bool spreads() const { return spec_.routing.paths == Routing::Paths::spread; }
    void add_level(int level);
    Vertex vertex_of_end(const std::vector<Rank>& sharing);
    std::vector<int> apart(int level) const;
    void add_whole(const FabricSpec& spec);
    void add_cores();
    void pass(int level, Rank from, Rank to, std::uint64_t key, RoutePath& path) const;
    void outermost(Rank from, Rank to, std::uint64_t key, RoutePath& path) const;

    Topology topology_;
    NetworkSpec spec_;
    std::vector<NetworkLink> links_;
    std::vector<LevelFabrics> levels_;
    std::unique_ptr<const Fabric> whole_;
    LinkId first_core_ = static_cast<LinkId>(most_links);
    int core_level_ = -1;
    std::size_t switches_ = 0;
    Vertex vertices_ = 0;
    std::vector<std::pair<Vertex, Vertex>> free_ways_;
};

// Returns the network that a text describes (docs/prediction.md): statements, one a line or separated by `;`.
// Throws DiagnosticError. name: of the text, for messages.
NetworkSpec parse_network(const std::string& name, const std::string& text, const Topology& topology);
// text: statements, the name of a file that ends in .network, or empty for what the topology says. Throws
// DiagnosticError, or NotFoundError for the file.
Network find_network(const std::string& text, const Topology& topology);

}  // namespace hocket::dsl
