// Longest paths over edges of length 0 or 1, where circles of length 0 are allowed.
#pragma once

#include <optional>
#include <vector>

namespace hocket::tools::imports {

class Waits {
  public:
    int add_node() {
        edges_.emplace_back();
        return static_cast<int>(edges_.size()) - 1;
    }
    // node comes `by` rounds, 0 or 1, after the other one, or later.
    void add(int node, int other, int by) { edges_[other].push_back({node, by}); }

    // The earliest round of each node; nothing if a circle has an edge of length 1. on_circle: then a node on
    // it.
    std::optional<std::vector<int>> earliest(int* on_circle) const;

  private:
    struct Edge {
        int to, length;
    };
    std::vector<int> components() const;

    std::vector<std::vector<Edge>> edges_;
};

}  // namespace hocket::tools::imports
