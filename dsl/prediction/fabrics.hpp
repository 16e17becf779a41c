// The kinds of fabrics that networks are made of.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dsl/graph/topology.hpp"
#include "dsl/prediction/network_spec.hpp"

namespace hocket::dsl {

// A path that is being made: the links so far, and the latencies of both ways to count.
struct RoutePath {
    std::vector<Hop> hops;
    double longest = 0, total = 0;

    void add(LinkId link, double latency, double share = 1) {
        hops.push_back({link, share});
        longest = std::max(longest, latency);
        total += latency;
    }
};

// Joins ends 0, 1, ... Immutable.
class Fabric {
  public:
    virtual ~Fabric() = default;
    // Appends the way between two different ends. key: the drawn number of the pair of ranks.
    virtual void route(std::size_t from, std::size_t to, const Routing& routing, std::uint64_t key,
                       RoutePath& path) const = 0;
};

// What a fabric is made from.
struct FabricPlace {
    std::string prefix;             // of its links' names
    std::vector<std::string> ends;  // their names; their number is the fabric's size
    double rate = 0, latency = 0;   // of each link
    int level = -1;
    std::vector<double> rates = {};     // by end, of a switch's links; empty: all have the same
    std::vector<Vertex> vertices = {};  // by end
    std::vector<Vertex> hubs =
        {};  // by end: the switch that it is at, of those that are not told apart as fabrics
};

// What a network's fabrics add up to.
struct FabricSums {
    std::vector<NetworkLink>& links;
    std::size_t& switches;
    Vertex& vertices;
};

// Adds the fabric's links and switches to `sums`. Throws DiagnosticError. spreads: all messages are spread
// over the paths.
std::unique_ptr<const Fabric> make_fabric(const FabricSpec& spec, const FabricPlace& place, bool spreads,
                                          const FabricSums& sums);
// The ends are the ranks.
std::unique_ptr<const Fabric> make_graph(const std::vector<GraphLink>& graph, Rank ranks,
                                         const FabricSums& sums);

// Throws DiagnosticError if the network gets too many links, or the link's rate is 0 or infinite.
void add_link(std::vector<NetworkLink>& links, NetworkLink link);

// Returns a number that is drawn from others.
std::uint64_t drawn(std::uint64_t seed, std::uint64_t number);

}  // namespace hocket::dsl
