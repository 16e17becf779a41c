// Spanning trees over which ranks spread their data, and the load that these make on links.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "dsl/synthesis/link_graph.hpp"

namespace hocket::dsl {

// A motion of the ranks after which the network is the same: coordinate rank / stride mod size turns.
struct Turn {
    Rank stride = 1, size = 1;

    Rank moved(Rank rank, Rank by) const {
        const Rank at = rank / stride % size;
        return rank + ((at + by) % size - at) * stride;
    }
};

struct Arc {
    Rank from = 0, to = 0;
    std::uint32_t round = 0;  // later than that of the arc to `from`

    friend auto operator<=>(const Arc&, const Arc&) = default;
};

// A part of the root's data goes over all arcs. The arc to a rank stands before those from it.
struct Tree {
    Rank root = 0;
    std::int64_t weight = 1;  // of the parts of the root's data: that many go this way
    std::vector<Arc> arcs;
};

// Each tree stands for all those that the turns make of it. The weights of a root's trees sum to its parts.
struct Forest {
    std::int64_t parts = 1;
    std::vector<Tree> trees;
    std::vector<Turn> turns;
};

// Returns the number of ranks that the turns make of one.
Rank images(const std::vector<Turn>& turns);
// Returns the ranks that no turn makes of a lower one.
std::vector<Rank> representatives(const std::vector<Turn>& turns, Rank ranks);
// Makes each arc's round the number of arcs from the root to it.
void go_at_once(Tree& tree);
std::uint32_t rounds(const Forest& forest);
// Makes one tree of those that are alike, with their weights' sum.
void join_alike(Forest& forest);

// Returns the time that the busiest link needs if each root has one byte, in seconds.
double seconds_per_byte(const Forest& forest, const Ways& ways);

}  // namespace hocket::dsl
