// A network as synthesis sees it: a graph of ranks and switches whose links have whole numbers as rates.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/base/deadline.hpp"
#include "dsl/prediction/network.hpp"

namespace hocket::dsl {

// Which way data flow. What combines is found as what spreads on links that are turned round.
enum class Flow : std::uint8_t { spreads, combines };

// The links that a message between two ranks uses. Where data combine, of(a, b) is the way from b to a.
class Ways {
  public:
    // The network must outlive it. Throws DeadlineError.
    Ways(const Network& network, Flow flow, const Deadline& deadline);

    const Network& network() const { return network_; }
    Flow flow() const { return flow_; }
    Rank ranks() const { return network_.ranks(); }
    const std::vector<Hop>& of(Rank from, Rank to) const { return hops_[index(from, to)]; }
    // Returns true if no rank passes the message on.
    bool is_direct(Rank from, Rank to) const { return direct_[index(from, to)]; }

  private:
    std::size_t index(Rank from, Rank to) const {
        return static_cast<std::size_t>(from) * static_cast<std::size_t>(network_.ranks()) +
               static_cast<std::size_t>(to);
    }

    const Network& network_;
    Flow flow_;
    std::vector<std::vector<Hop>> hops_;
    std::vector<bool> direct_;
};

struct LinkGraph {
    static constexpr LinkId free_way = static_cast<LinkId>(most_links);  // costs nothing
    struct Edge {
        Vertex from = 0, to = 0;
        std::int64_t rate = 0;  // in units
        LinkId link = free_way;
    };

    Vertex ranks = 0, vertices = 0;
    std::vector<Edge> edges;
    double unit = 1;  // bytes per second
};

// Returns the links that messages use. Throws DiagnosticError for rates that are too far apart.
LinkGraph link_graph(const Ways& ways);

}  // namespace hocket::dsl
