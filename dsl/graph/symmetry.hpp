// Motions of the ranks that leave a schedule's traffic as it is, so that one rank's steps stand for all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dsl/base/diagnostic.hpp"
#include "dsl/graph/topology.hpp"

namespace hocket::dsl {

// How the coordinates of a level move: all by the same number, around the level's size (turn), or all by an
// exclusive or with the same number, in a level whose size is a power of two (flip).
enum class Motion : std::uint8_t { turn, flip };

// Returns the coordinate of a level of this size after a motion by `amount`, which is in 0 ..< size.
constexpr Rank moved_coordinate(Motion motion, Rank coordinate, Rank amount, Rank size) {
    return motion == Motion::turn ? (coordinate + amount) % size : coordinate ^ amount;
}
// Returns the amount that undoes a motion.
constexpr Rank amount_back(Motion motion, Rank amount, Rank size) {
    return motion == Motion::turn ? (size - amount) % size : amount;
}

// A group of motions, each of which moves the coordinates of every level by some number. For each pair of
// ranks exactly one of them brings the first to the second.
struct Symmetry {
    std::vector<Motion> levels;

    // Returns, by level, the amounts of the motion that brings rank 0 to `to`, or `to` to rank 0.
    std::vector<Rank> amounts(const Topology& topology, Rank to) const;
    std::vector<Rank> amounts_back(const Topology& topology, Rank to) const;
    // Returns the rank to which this one comes.
    Rank moved(const Topology& topology, Rank rank, const std::vector<Rank>& amounts) const;

    // Returns where `rank` comes to by the motion that brings `from` to `to`.
    Rank moved(const Topology& topology, Rank rank, Rank from, Rank to) const;
};

// Thrown if there is none. Its message says what is not the same for all ranks.
class AsymmetryError : public DiagnosticError {
  public:
    AsymmetryError(Span span, const std::string& why)
        : DiagnosticError(span, "no rank stands for all ranks: " + why) {}
};

}  // namespace hocket::dsl
