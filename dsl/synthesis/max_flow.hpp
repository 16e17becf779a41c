// The largest flow between two vertices, and the cut that limits it (Dinic's algorithm).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "dsl/prediction/network_spec.hpp"

namespace hocket::dsl {

class MaxFlow {
  public:
    static constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

    explicit MaxFlow(Vertex vertices) : first_(vertices, none) {}

    // Adds an edge. Returns its number, from 0 on.
    std::size_t add(Vertex from, Vertex to, std::int64_t capacity);
    // Returns the flow, but no more than the limit. Capacities are whole again before it begins.
    std::int64_t run(Vertex from, Vertex to, std::int64_t limit = no_limit);
    // After a run that was not limited: the vertices on the source's side of a smallest cut.
    bool is_on_source_side(Vertex vertex) const { return level_[vertex] != none; }

  private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    struct Edge {
        Vertex to;
        std::uint32_t next;  // of the same vertex
        std::int64_t capacity, left;
    };

    bool find_levels(Vertex from, Vertex to);
    std::int64_t push(Vertex at, Vertex to, std::int64_t most);

    std::vector<Edge> edges_;           // an edge and its reverse, side by side
    std::vector<std::uint32_t> first_;  // edge of a vertex
    std::vector<std::uint32_t> level_, turn_;
    std::vector<Vertex> reached_;
};

}  // namespace hocket::dsl
