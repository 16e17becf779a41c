// The compiler against the reference, on one program: both accept it or both refuse it; and an accepted
// program gives the reference's values on every rank, in every layout and order of events.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/differential/program.hpp"

namespace hocket::differential {

struct ComparisonOptions {
    std::string file;       // that programs are written to, for the compiler to read
    bool thorough = false;  // all layouts, counts and orders, instead of some that the seed chooses
};

struct Comparison {
    enum class Outcome : std::uint8_t { right, refused, different };
    Outcome outcome = Outcome::right;
    std::string kind;  // of a difference: "refused by the compiler alone", "values", ...
    std::string text;  // the text of each side
};

Comparison compare(const Program& program, const ComparisonOptions& options);

// Removes parts of the program as long as the two sides differ in the same way.
Program reduced(Program program, const ComparisonOptions& options);

// Describes a difference for a person.
std::string report(const Program& program, const Comparison& comparison);

}  // namespace hocket::differential
