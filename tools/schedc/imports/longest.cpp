#include "tools/schedc/imports/longest.hpp"

#include <algorithm>

namespace hocket::tools::imports {

// Tarjan's strongly connected components, without recursion. A component's number is above those that it
// leads to.
std::vector<int> Waits::components() const {
    const int count = static_cast<int>(edges_.size());
    std::vector<int> component(edges_.size(), -1), index(edges_.size(), -1), low(edges_.size()), open;
    std::vector<std::size_t> next(edges_.size());
    std::vector<int> path;
    int visited = 0, found = 0;
    const auto enter = [&](int node) {
        index[node] = low[node] = visited++;
        open.push_back(node);
        path.push_back(node);
    };
    for (int start = 0; start < count; ++start) {
        if (index[start] >= 0) continue;
        enter(start);
        while (!path.empty()) {
            const int node = path.back();
            if (next[node] < edges_[node].size()) {
                const int to = edges_[node][next[node]++].to;
                if (index[to] < 0)
                    enter(to);
                else if (component[to] < 0)
                    low[node] = std::min(low[node], index[to]);
                continue;
            }
            path.pop_back();
            if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[node]);
            if (low[node] != index[node]) continue;
            for (int one = -1; one != node; open.pop_back()) component[one = open.back()] = found;
            ++found;
        }
    }
    return component;
}

std::optional<std::vector<int>> Waits::earliest(int* on_circle) const {
    const std::vector<int> component = components();
    for (std::size_t node = 0; node < edges_.size(); ++node)
        for (const Edge& edge : edges_[node])
            if (edge.length > 0 && component[node] == component[edge.to]) {
                *on_circle = static_cast<int>(node);
                return std::nullopt;
            }
    std::vector<int> order(edges_.size());
    for (std::size_t node = 0; node < order.size(); ++node) order[node] = static_cast<int>(node);
    std::ranges::stable_sort(order, std::greater(), [&](int node) { return component[node]; });
    std::vector<int> round_of(edges_.size(), 0);  // by component
    for (const int node : order)
        for (const Edge& edge : edges_[node])
            round_of[component[edge.to]] =
                std::max(round_of[component[edge.to]], round_of[component[node]] + edge.length);
    std::vector<int> rounds(edges_.size());
    for (std::size_t node = 0; node < rounds.size(); ++node) rounds[node] = round_of[component[node]];
    return rounds;
}

}  // namespace hocket::tools::imports
