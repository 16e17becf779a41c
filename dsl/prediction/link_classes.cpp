#include "dsl/prediction/link_classes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "dsl/base/diagnostic.hpp"
#include "dsl/prediction/costs.hpp"

namespace hocket::dsl {
namespace {

[[noreturn]] void refuse(const std::string& what) {
    throw AsymmetryError(Span(), what);
}

std::vector<std::int64_t> wide(std::vector<std::int64_t> sizes) {
    std::erase(sizes, 1);
    return sizes;
}

// A switch is the same whichever way its ends move. The cables of rings, tori and meshes keep their direction
// if the ends turn in each dimension. dimensions: those in which the ends move.
void check(const FabricSpec& spec, const std::vector<std::int64_t>& dimensions, const Routing& routing,
           bool turns) {
    using Kind = FabricSpec::Kind;
    if (spec.kind == Kind::crossbar) return;
    if (routing.paths == Routing::Paths::hash) refuse("paths are drawn for each pair of ranks");
    if (spec.kind == Kind::fat_tree) refuse(fmt::format("the tiers of {} do not move with them", spec.text));
    if (!turns) refuse(fmt::format("{} is not the same if they move as the schedule needs it", spec.text));
    const auto moving = wide(dimensions);
    if (spec.kind == Kind::torus ? wide(spec.sizes) != moving : moving.size() > 1)
        refuse(fmt::format("{} has other dimensions than the topology has levels", spec.text));
}

// Coordinates of two values turn if they flip.
bool turns(const Network& network, const Symmetry& symmetry, std::size_t level) {
    return symmetry.levels[level] == Motion::turn || network.topology().levels[level].size <= 2;
}

void check_whole(const Network& network, const Symmetry& symmetry) {
    std::vector<std::int64_t> sizes;
    bool all_turn = true;
    for (std::size_t level = 0; level < symmetry.levels.size(); ++level) {
        sizes.push_back(network.topology().levels[level].size);
        all_turn &= turns(network, symmetry, level);
    }
    check(network.spec().whole.front(), sizes, network.spec().routing, all_turn);
}

void check_levels(const Network& network, const Symmetry& symmetry) {
    for (std::size_t level = 0; level < symmetry.levels.size(); ++level) {
        const Level& own = network.topology().levels[level];
        if (is_memory(own)) continue;
        check(network.spec().levels[level], {own.size}, network.spec().routing,
              turns(network, symmetry, level));
    }
}

}  // namespace

LinkClasses::LinkClasses(const Network& network, const Symmetry& symmetry) : ranks_(network.ranks()) {
    if (!network.spec().graph.empty()) refuse("the network is given link by link");
    if (!network.spec().ends.empty()) refuse("some ends have rates of their own");
    if (!network.spec().whole.empty())
        check_whole(network, symmetry);
    else
        check_levels(network, symmetry);
    std::map<std::tuple<int, NetworkLink::Kind, std::uint32_t>, LinkId> classes;
    members_.assign(network.links().size(), 0);
    for (LinkId link = 0; link < network.links().size(); ++link) {
        const NetworkLink& one = network.links()[link];
        first_.push_back(classes.try_emplace({one.level, one.kind, one.direction}, link).first->second);
        ++members_[first_.back()];
    }
}

std::vector<Hop> LinkClasses::of_all(const std::vector<Hop>& hops) const {
    std::vector<Hop> merged;
    for (const Hop& hop : hops) {
        const double share = hop.share * ranks_a_link(hop.link);
        const auto same = [&](const Hop& other) { return other.link == first(hop.link); };
        if (const auto known = std::find_if(merged.begin(), merged.end(), same); known != merged.end())
            known->share += share;
        else
            merged.push_back({first(hop.link), share});
    }
    return merged;
}

std::vector<Rank> ranks_of_end(const Topology& topology, int level) {
    return members_of(topology, make_group(topology, sharing_levels(topology, level)), 0);
}

}  // namespace hocket::dsl
