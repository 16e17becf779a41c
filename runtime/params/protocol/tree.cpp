#include "runtime/params/protocol/tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "runtime/base/error.hpp"

namespace hocket::params {

Shape Shape::parse(const std::string& text) {
    if (text == "direct") return {Kind::direct};
    if (text == "rack") return {Kind::rack};
    if (text == "auto") return {Kind::chosen};
    if (text == "binary") return {Kind::degree, 2};
    constexpr std::string_view prefix = "degree ";
    if (text.starts_with(prefix)) {
        Shape shape{Kind::degree, 0};
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data() + prefix.size(), end, shape.degree);
        if (error == std::errc() && stop == end && shape.degree >= 1) return shape;
    }
    throw Error(Status::invalid_argument,
                fmt::format("\"{}\" is no tree: there are direct, binary, \"degree N\" with N of 1 or more, "
                            "rack, and auto, which takes the one with the lowest estimate",
                            text));
}

std::string Shape::text() const {
    switch (kind) {
        case Kind::direct:
            return "direct";
        case Kind::rack:
            return "rack";
        case Kind::chosen:
            return "auto";
        case Kind::degree:
            break;
    }
    return degree == 2 ? "binary" : fmt::format("degree {}", degree);
}

namespace {

Tree lowest_estimate(Shape shape, const std::map<Worker, int>& groups) {
    using Kind = Shape::Kind;
    Tree best;
    double lowest = 0;
    // Of shapes with the same cost, the first is taken.
    for (const auto& [kind, degree] : {std::pair{Kind::direct, 0},
                                       {Kind::rack, 0},
                                       {Kind::degree, 4},
                                       {Kind::degree, 3},
                                       {Kind::degree, 2},
                                       {Kind::degree, 1}}) {
        shape.kind = kind;
        shape.degree = degree;
        Tree tree(shape, groups);
        const double cost = load(shape, groups) + (tree.depth() + tree.most_children()) * shape.step_cost;
        if (best.size() == 0 || cost < lowest) {
            best = std::move(tree);
            lowest = cost;
        }
    }
    return best;
}

// Returns the workers in the order in which they get places in this server's tree. The first ones have
// children, so each server's order begins with another worker.
std::vector<Worker> in_order_of(const Shape& shape, std::vector<Worker> workers) {
    const auto first = workers.size() * shape.server / shape.server_groups.size();
    std::rotate(workers.begin(), workers.begin() + static_cast<std::ptrdiff_t>(first), workers.end());
    return workers;
}

}  // namespace

Tree::Tree(const Shape& shape, const std::map<Worker, int>& groups) {
    if (shape.kind == Shape::Kind::chosen) {
        *this = lowest_estimate(shape, groups);
        return;
    }
    // Each rack is a separate tree below the server; in the other shapes all workers form one tree.
    std::map<int, std::vector<Worker>> together;
    for (const auto& [worker, group] : groups)
        together[shape.kind == Shape::Kind::rack ? group : 0].push_back(worker);
    for (auto& [group, workers] : together) {
        const std::vector<Worker> order = in_order_of(shape, std::move(workers));
        for (std::size_t place = 0; place < order.size(); ++place) {
            // Node 0 is the server; the workers follow level by level.
            const std::size_t above = shape.kind == Shape::Kind::direct ? 0
                                      : shape.kind == Shape::Kind::rack
                                          ? std::min<std::size_t>(place, 1)
                                          : place / static_cast<std::size_t>(shape.degree);
            parents_.emplace(order[place], above == 0 ? the_server : order[above - 1]);
        }
    }
}

std::vector<Worker> Tree::children(Worker of) const {
    std::vector<Worker> result;
    for (const auto& [worker, parent] : parents_)
        if (parent == of) result.push_back(worker);
    return result;
}

int Tree::depth() const {
    int deepest = 0;
    for (const auto& [worker, above] : parents_) {
        int levels = 1;
        for (Worker node = above; node != the_server; node = parents_.at(node)) ++levels;
        deepest = std::max(deepest, levels);
    }
    return deepest;
}

int Tree::most_children() const {
    std::map<Worker, int> children;
    int most = 0;
    for (const auto& [worker, above] : parents_) most = std::max(most, ++children[above]);
    return most;
}

void Tree::lift(Worker worker) {
    const Worker above = parent(worker);
    if (above != the_server) parents_[worker] = parent(above);
}

double load(const Shape& shape, const std::map<Worker, int>& groups) {
    std::map<int, int> out, in;  // by group, for updates; weights take the opposite direction
    Shape each = shape;
    for (each.server = 0; each.server < shape.server_groups.size(); ++each.server) {
        const Tree tree(each, groups);
        for (const auto& [worker, from] : groups) {
            const Worker above = tree.parent(worker);
            const int to = above == the_server ? shape.server_groups[each.server] : groups.at(above);
            if (from == to) continue;
            ++out[from];
            ++in[to];
        }
    }
    int most = 0;
    for (const auto& loads : {out, in})
        for (const auto& [group, times] : loads) most = std::max(most, times);
    return static_cast<double>(most) / static_cast<double>(shape.server_groups.size());
}

}  // namespace hocket::params
