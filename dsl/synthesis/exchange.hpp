// all_to_all in phases: which ranks send to which at once.
#pragma once

#include <cstdint>
#include <vector>

#include "dsl/synthesis/forest.hpp"

namespace hocket::dsl {

// Each rank sends to the one that a distance brings it to. A distance counts in the turns' coordinates, the
// first turn's fastest.
struct Exchange {
    std::vector<Turn> turns;                // of which a combination brings each rank to each other
    std::vector<std::vector<Rank>> phases;  // of distances, each but 0 once
};

// The loads of links by the messages of each distance.
class DistanceLoads {
  public:
    // turns: of the network; if they don't bring each rank to each other, distances count ranks.
    // Throws DeadlineError.
    DistanceLoads(const Ways& ways, std::vector<Turn> turns, const Deadline& deadline);

    // Returns the time of the busiest link if each rank sends each other one byte, in seconds.
    double seconds_per_byte() const;
    // Divides the distances among so many phases, so that the busiest links of the phases take little time in
    // all.
    Exchange in_phases(std::size_t phases, const Deadline& deadline) const;

  private:
    struct Load {
        LinkId link;
        double seconds;  // of a byte
    };
    std::vector<Turn> turns_;
    std::size_t links_;
    std::vector<std::vector<Load>> loads_;  // by distance
};

// Returns where the distance brings a rank.
Rank moved_by(const std::vector<Turn>& turns, Rank rank, Rank distance);

}  // namespace hocket::dsl
