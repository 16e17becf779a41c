#include "dsl/synthesis/max_flow.hpp"

#include <algorithm>

namespace hocket::dsl {

std::size_t MaxFlow::add(Vertex from, Vertex to, std::int64_t capacity) {
    const auto number = static_cast<std::uint32_t>(edges_.size());
    edges_.push_back({to, first_[from], capacity, capacity});
    first_[from] = number;
    edges_.push_back({from, first_[to], 0, 0});
    first_[to] = number + 1;
    return number / 2;
}

bool MaxFlow::find_levels(Vertex from, Vertex to) {
    level_.assign(first_.size(), none);
    level_[from] = 0;
    reached_.assign(1, from);
    for (std::size_t i = 0; i < reached_.size(); ++i)
        for (std::uint32_t e = first_[reached_[i]]; e != none; e = edges_[e].next)
            if (edges_[e].left > 0 && level_[edges_[e].to] == none) {
                level_[edges_[e].to] = level_[reached_[i]] + 1;
                reached_.push_back(edges_[e].to);
            }
    return level_[to] != none;
}

std::int64_t MaxFlow::push(Vertex at, Vertex to, std::int64_t most) {
    if (at == to) return most;
    std::int64_t pushed = 0;
    for (std::uint32_t& e = turn_[at]; e != none && pushed < most; e = edges_[e].next) {
        Edge& edge = edges_[e];
        if (edge.left <= 0 || level_[edge.to] != level_[at] + 1) continue;
        const std::int64_t part = push(edge.to, to, std::min(most - pushed, edge.left));
        edge.left -= part;
        edges_[e ^ 1].left += part;
        pushed += part;
        if (pushed == most) break;  // this edge may carry more
    }
    return pushed;
}

std::int64_t MaxFlow::run(Vertex from, Vertex to, std::int64_t limit) {
    for (Edge& edge : edges_) edge.left = edge.capacity;
    std::int64_t flow = 0;
    while (flow < limit && find_levels(from, to)) {
        turn_ = first_;
        flow += push(from, to, limit - flow);
    }
    return flow;
}

}  // namespace hocket::dsl
