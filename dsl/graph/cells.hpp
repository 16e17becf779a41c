// The finest pieces into which a schedule divides x, and the pieces to which motions of the ranks bring them.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/graph/region.hpp"
#include "dsl/graph/symmetry.hpp"
#include "dsl/graph/topology.hpp"

namespace hocket::dsl {

// x as a tree: a node is divided by a level, into as many equal pieces as that has coordinates, all of which
// are divided alike; or into parts, each of which is divided in its own way; or not at all. The last are the
// cells, numbered in the order of their positions.
class Cells {
  public:
    // Adds divisions, the most significant first. Returns false, and is useless from then on, if a piece was
    // divided in another way before, or there are more than most_cells.
    bool add(const std::vector<View::Digit>& digits) { return add(root_, digits, 0); }
    // Call it after the last add() and before any other function.
    void settle() { settle(root_); }
    // Adds numbers that differ if the divisions do.
    void describe(std::vector<std::int64_t>& numbers) const { describe(root_, numbers); }

    static constexpr std::uint64_t most_cells = std::uint64_t{1} << 24;
    std::uint32_t count() const { return static_cast<std::uint32_t>(root_.cells); }
    // Returns one interval for each cell, in ascending order: neighbours are not merged.
    Region intervals() const;

    // Returns the cell to which this one comes when the coordinates of the levels move by these amounts.
    std::uint32_t moved(std::uint32_t cell, const Symmetry& symmetry, const std::vector<Rank>& amounts) const;

  private:
    struct Node {
        static constexpr int undivided = -2, parts = -1;
        int level = undivided;
        std::int64_t size = 1;
        std::vector<Node> below = {};  // of a level: one, for all its pieces
        std::uint64_t cells = 1;
        std::vector<std::uint64_t> begins = {};  // of parts: the cells before each; once all are added
    };
    static void settle(Node& node);
    static bool add(Node& node, const std::vector<View::Digit>& digits, std::size_t next);
    static void describe(const Node& node, std::vector<std::int64_t>& numbers);
    static void append(const Node& node, Rational begin, Rational end, Region& region);

    Node root_;
};

// A symmetry of what is moved, too: where a motion brings one rank to another, it brings each piece of x that
// the one sends, gets or holds to a piece that the other sends, gets or holds.
struct DataSymmetry {
    Topology topology;
    Symmetry ranks;
    Cells cells;               // of each buffer
    std::int64_t buffers = 1;  // as StepGraph::buffers

    std::uint32_t count() const { return cells.count() * static_cast<std::uint32_t>(buffers); }
    // Returns the cells of all buffers, as Cells::intervals().
    Region intervals() const;
    // Returns where such a cell comes to, as Cells::moved().
    std::uint32_t moved(std::uint32_t cell, const std::vector<Rank>& amounts) const {
        const std::uint32_t within = cell % cells.count();
        return cell - within + cells.moved(within, ranks, amounts);
    }
};

}  // namespace hocket::dsl
