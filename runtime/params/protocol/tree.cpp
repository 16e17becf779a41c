#include "runtime/params/protocol/tree.hpp"

#include <fmt/format.h>

#include <charconv>

#include "runtime/error.hpp"

namespace hocket::params {

Shape Shape::parse(const std::string& text) {
    if (text == "direct") return {Kind::direct};
    if (text == "rack") return {Kind::rack};
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
                            "and rack",
                            text));
}

std::string Shape::text() const {
    switch (kind) {
        case Kind::direct:
            return "direct";
        case Kind::rack:
            return "rack";
        case Kind::degree:
            break;
    }
    return degree == 2 ? "binary" : fmt::format("degree {}", degree);
}

Tree::Tree(const Shape& shape, const std::map<Worker, int>& groups) {
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
