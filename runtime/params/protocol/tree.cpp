#include "runtime/params/protocol/tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "runtime/error.hpp"

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

Tree lowest_estimate(const Shape& shape, const std::map<Worker, int>& groups) {
    using Kind = Shape::Kind;
    Tree best;
    double lowest = 0;
    // The first of those that cost the same.
    for (const Shape& candidate : {Shape{Kind::direct}, Shape{Kind::rack}, Shape{Kind::degree, 4},
                                   Shape{Kind::degree, 3}, Shape{Kind::degree, 2}, Shape{Kind::degree, 1}}) {
        Tree tree(candidate, groups);
        const double cost =
            tree.load(groups, shape.servers_group) + (tree.depth() + tree.most_children()) * shape.step_cost;
        if (best.size() == 0 || cost < lowest) {
            best = std::move(tree);
            lowest = cost;
        }
    }
    return best;
}

}  // namespace

Tree::Tree(const Shape& shape, const std::map<Worker, int>& groups) {
    if (shape.kind == Shape::Kind::chosen) {
        *this = lowest_estimate(shape, groups);
        return;
    }
    std::vector<Worker> placed;  // in their order
    std::map<int, Worker> first_of_group;
    for (const auto& [worker, group] : groups) {
        Worker parent = the_server;
        if (shape.kind == Shape::Kind::degree) {
            // The server is node 0, and the workers follow, level by level.
            const auto above = placed.size() / static_cast<std::size_t>(shape.degree);
            if (above > 0) parent = placed[above - 1];
        } else if (shape.kind == Shape::Kind::rack) {
            const auto [first, is_new] = first_of_group.emplace(group, worker);
            if (!is_new) parent = first->second;
        }
        parents_.emplace(worker, parent);
        placed.push_back(worker);
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

int Tree::load(const std::map<Worker, int>& groups, int servers_group) const {
    std::map<int, int> out, in;  // by group; updates: weights go the other way
    for (const auto& [worker, above] : parents_) {
        const int from = groups.at(worker), to = above == the_server ? servers_group : groups.at(above);
        if (from == to) continue;
        ++out[from];
        ++in[to];
    }
    int most = 0;
    for (const auto& loads : {out, in})
        for (const auto& [group, times] : loads) most = std::max(most, times);
    return most;
}

void Tree::remove(Worker worker) {
    const Worker above = parent(worker);
    for (const Worker child : children(worker)) parents_[child] = above;
    parents_.erase(worker);
}

void Tree::make_leaf(Worker worker) {
    remove(worker);
    add_leaf(worker);
}

void Tree::lift(Worker worker) {
    const Worker above = parent(worker);
    if (above != the_server) parents_[worker] = parent(above);
}

}  // namespace hocket::params
