// The part of the buffer that a name stands for: digits, and the pieces that they select.
#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "tests/differential/reference/reference.hpp"
#include "tests/differential/reference/syntax.hpp"

namespace hocket::reference {

// A position, in lowest terms: x reaches from 0 to 1, its result after one exchange into a second buffer from
// 1 to 2, and so on. Denominators are at most 2^31.
struct Fraction {
    Fraction(std::int64_t n, std::int64_t d)
        : numerator(n / std::gcd(n, d)), denominator(d / std::gcd(n, d)) {}

    friend bool operator==(const Fraction& a, const Fraction& b) {
        return a.numerator == b.numerator && a.denominator == b.denominator;
    }
    friend bool operator<(const Fraction& a, const Fraction& b) {
        __extension__ using Wide = __int128;
        return Wide{a.numerator} * b.denominator < Wide{b.numerator} * a.denominator;
    }

    std::int64_t numerator;
    std::int64_t denominator;
};

// From `begin` to before `end`.
struct Piece {
    Fraction begin;
    Fraction end;

    friend bool operator==(const Piece& a, const Piece& b) { return a.begin == b.begin && a.end == b.end; }
};

// Levels are known by their numbers, the innermost being 0.
class Topology {
  public:
    explicit Topology(std::vector<Level> levels);

    std::int64_t ranks() const { return ranks_; }
    int level_count() const { return static_cast<int>(levels_.size()); }
    const Level& level(int number) const { return levels_[number]; }
    std::int64_t coordinate(std::int64_t rank, int level) const {
        return rank / strides_[level] % levels_[level].size;
    }
    // The size of a group over these levels.
    std::int64_t group_size(const std::vector<int>& levels) const;
    std::vector<int> all_levels() const;
    // The ranks that differ from this one in these levels alone, the innermost counting fastest.
    // `levels` are in order, innermost first.
    std::vector<std::int64_t> group_of(std::int64_t rank, const std::vector<int>& levels) const;
    // The member number that `rank` has in its group.
    std::int64_t member_number(std::int64_t rank, const std::vector<int>& levels) const;

  private:
    std::vector<Level> levels_;
    std::vector<std::int64_t> strides_;
    std::int64_t ranks_ = 1;
};

// A level's digit, or a part, which has no level and always the same value.
struct Digit {
    std::optional<int> level;
    std::int64_t size = 1;
    bool scattered = false;
    std::int64_t part = 0;
};

using Digits = std::vector<Digit>;

Digit* find_digit(Digits& digits, int level);

// Adds a free digit for each of the levels (in order, innermost first) that has none yet, the outermost
// first.
void add_digits(Digits& digits, const std::vector<int>& levels, const Topology& topology);

// The buffer that a name stands for.
struct Buffer {
    Digits digits;
    std::size_t kept = 0;  // of the digits: those that the buffer started with
    // By level: the coordinate of the ranks that the data are with, where they are not with all.
    std::map<int, std::int64_t> limited_to{};
    // The number of exchanges into a second buffer that have made it.
    std::int64_t generation = 0;
};

// The ranks among which a buffer is divided into chunks, one for each of them.
struct Group {
    std::vector<int> levels;
    std::vector<std::int64_t> ranks;  // by member
};

// The pieces of some chunks of a buffer as the group sees it; those that touch are one.
//   chunks: the members that own them; nothing for all.
std::vector<Piece> pieces_of(const Buffer& buffer, const Group& group,
                             const std::optional<std::vector<std::int64_t>>& chunks, const Topology& topology,
                             Position at);

// A piece that moves to another place.
struct Shift {
    Piece from;
    Piece to;
};

// Maps the pieces to the other ones, in the order of their positions. Refused where the two have not the
// same length for every count.
//   ranks: where the count has as many elements for each; else 1.
std::vector<Shift> shifts_of(const std::vector<Piece>& from, const std::vector<Piece>& to, std::int64_t ranks,
                             Position at);

}  // namespace hocket::reference
