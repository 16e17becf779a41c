// Data that spread in rounds, each of which fills the links: a greedy over time and links (as TACOS does it).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "dsl/synthesis/forest.hpp"

namespace hocket::dsl {

struct RoundLimits {
    Rank messages = 1;                                         // that a rank sends, and gets, in a round
    Rank pieces = std::numeric_limits<Rank>::max();            // in a message
    std::int64_t parts = 1;                                    // of a root's data: a piece is one
    double seconds = std::numeric_limits<double>::infinity();  // of a round, if a piece is one byte
    std::uint64_t seed = 0;                                    // decides between links that are as full

    bool fills_links() const { return seconds < std::numeric_limits<double>::infinity(); }
};

// Each rank gets each piece of the roots once. In each round, ranks send each other what the receiver lacks:
// the longest message first, with the pieces that are hardest to get elsewhere. The roots stand for all that
// the turns make of them. Throws DeadlineError.
Forest spread_in_rounds(const Ways& ways, const std::vector<Turn>& turns, const std::vector<Rank>& roots,
                        const RoundLimits& limits, const Deadline& deadline);

}  // namespace hocket::dsl
