// The levels of a cluster, and where a rank stands in them.
#pragma once

#include <string>
#include <vector>

#include "dsl/ast.hpp"

namespace hocket::dsl {

struct Level {
    std::string name;
    Rank size = 1;
    std::string medium = "fabric";  // memory, fabric or device
    double latency = 20e-6;         // seconds a message
    double bandwidth = 1.25e9;      // bytes per second and direction
    std::string shared_by = {};     // the level whose ranks share this link; empty: each has its own
};

// Levels, innermost first. A rank is the mixed radix number of its coordinates, the innermost level's
// counting fastest.
struct Topology {
    std::string name;  // "2x3", "bcube(3, 2)"
    std::vector<Level> levels;

    Rank ranks() const;
    Rank stride(int level) const;  // distance between ranks that differ by one in this coordinate
    Rank coordinate(Rank rank, int level) const { return rank / stride(level) % levels[level].size; }
};

// One level named "world".
Topology flat_topology(Rank ranks);

// "2x3": levels named l0, l1, ... Null-like (no levels) if the text is not of this form.
Topology grid_topology(const std::string& text);

// Runs the definition with the arguments of the reference (positional, then the defaults).
Topology build_topology(const ast::TopologyDefinition& definition, const ast::Expression& reference);

// A set of levels: the group of a rank over it are the ranks that differ from it in these coordinates only.
// Members are numbered in mixed radix, innermost first, as ranks are.
struct Group {
    std::vector<int> levels;  // ascending
    Rank size = 1;

    friend bool operator==(const Group&, const Group&) = default;
};

Group make_group(const Topology& topology, std::vector<int> levels);
Group world_group(const Topology& topology);
std::string name_of(const Topology& topology, const Group& group);

// The ranks of the group that `rank` belongs to, by member number.
std::vector<Rank> members_of(const Topology& topology, const Group& group, Rank rank);

}  // namespace hocket::dsl
