// Proves that a plan does what its collective promises, and lists the effects of each phase on each place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/differential/reference/buffers.hpp"
#include "tests/differential/reference/layout.hpp"

namespace hocket::reference {

// A rank's place for an atom: for the piece between two adjacent boundaries, which is only sent as a whole.
struct Place {
    std::int64_t rank = 0;
    std::size_t atom = 0;

    friend bool operator==(const Place& a, const Place& b) { return a.rank == b.rank && a.atom == b.atom; }
};

// The write of one phase to a place.
struct Write {
    std::int64_t phase = 0;
    Place place;
    // The folded values, in the order of ranks: the receiver's own, too, if it is combined into. A copy has
    // the sender alone. Of one rank's values the receiver's own comes first, and then the one that is further
    // in front.
    std::vector<Place> operands;
};

struct Proof {
    std::vector<Fraction> boundaries;  // from 0 to generations; atom i is between boundaries i and i + 1
    std::vector<Write> writes;         // in the order of their phases
};

// Refuses a plan that is not right.
Proof prove(const Plan& plan, const std::string& collective, std::int64_t root, std::int64_t ranks);

// The piece of x that the collective gives the rank to start with, if any.
std::vector<Piece> input_of(std::int64_t rank, const std::string& collective, std::int64_t root,
                            std::int64_t ranks);

// The piece of the result that the collective promises the rank, if any: from 0 to 1.
std::vector<Piece> output_of(std::int64_t rank, const std::string& collective, std::int64_t root,
                             std::int64_t ranks);

}  // namespace hocket::reference
