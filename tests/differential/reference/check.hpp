// Proves that a plan does what its collective promises, and says what each phase does to each place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/differential/reference/buffers.hpp"
#include "tests/differential/reference/layout.hpp"

namespace hocket::reference {

// What a rank has of an atom: of a piece between neighbouring boundaries, which is only sent as one.
struct Place {
    std::int64_t rank = 0;
    std::size_t atom = 0;

    friend bool operator==(const Place& a, const Place& b) { return a.rank == b.rank && a.atom == b.atom; }
};

// All that one phase writes to a place.
struct Write {
    std::int64_t phase = 0;
    Place place;
    // Whose values are folded, in the order of ranks: the receiver's own too if it is combined into. A copy
    // has the sender alone. Of one rank's, the receiver's own comes first, and then what is further in front.
    std::vector<Place> operands;
};

struct Proof {
    std::vector<Fraction> boundaries;  // from 0 to generations; atom i is between boundaries i and i + 1
    std::vector<Write> writes;         // in the order of their phases
};

// Refuses a plan that is not right.
Proof prove(const Plan& plan, const std::string& collective, std::int64_t root, std::int64_t ranks);

// Whether the collective gives the rank a piece of x to start with, and which.
std::vector<Piece> input_of(std::int64_t rank, const std::string& collective, std::int64_t root,
                            std::int64_t ranks);

// Whether the collective promises the rank a piece of what becomes of x, and which: from 0 to 1.
std::vector<Piece> output_of(std::int64_t rank, const std::string& collective, std::int64_t root,
                             std::int64_t ranks);

}  // namespace hocket::reference
