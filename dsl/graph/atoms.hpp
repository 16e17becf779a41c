// Divides a buffer into atoms: the finest pieces into which a set of regions cuts it. Verification and
// projection are fast because they count atoms instead of comparing fractions.
#pragma once

#include <algorithm>
#include <set>
#include <vector>

#include "dsl/graph/region.hpp"

namespace hocket::dsl {

// A half-open range; atom i lies between boundaries i and i + 1.
struct AtomRange {
    std::uint32_t begin = 0, end = 0;
};

// Returns the position within its piece, from 0 to 1, in a buffer of `pieces` pieces.
inline Rational place_in_piece(Rational position, std::int64_t pieces) {
    const Rational in_pieces = position * Rational(pieces);
    return Rational(in_pieces.num() % in_pieces.den(), in_pieces.den());
}

class Atoms {
  public:
    void add(const std::vector<Region>& regions) {
        for (const Region& region : regions)
            for (const Interval& interval : region) {
                boundaries_.push_back(interval.begin);
                boundaries_.push_back(interval.end);
            }
    }
    // Call it after the last add() and before any other function. Buffer i covers positions i to i + 1. If
    // `pieces` is not 0, each buffer is divided into that many pieces, and all pieces are cut at the same
    // offsets. alike: the first positions of buffers that are all cut at the same offsets.
    void settle(std::int64_t buffers = 1, std::int64_t pieces = 0,
                const std::vector<std::int64_t>& alike = {}) {
        for (std::int64_t buffer = 1; buffer <= buffers; ++buffer) boundaries_.push_back(Rational(buffer));
        if (pieces > 0) cut_alike(buffers, pieces);
        copy_cuts(alike);
        std::sort(boundaries_.begin(), boundaries_.end());
        boundaries_.erase(std::unique(boundaries_.begin(), boundaries_.end()), boundaries_.end());
    }

    std::uint32_t count() const { return static_cast<std::uint32_t>(boundaries_.size() - 1); }
    const std::vector<Rational>& boundaries() const { return boundaries_; }

    AtomRange of(const Interval& interval) const { return {index(interval.begin), index(interval.end)}; }
    std::vector<AtomRange> of(const Region& region) const {
        std::vector<AtomRange> ranges;
        for (const Interval& interval : region) ranges.push_back(of(interval));
        return ranges;
    }

  private:
    void cut_alike(std::int64_t buffers, std::int64_t pieces) {
        std::set<Rational> cuts{Rational(0)};  // positions inside a piece
        for (const Rational& boundary : boundaries_) cuts.insert(place_in_piece(boundary, pieces));
        boundaries_.assign(1, Rational(buffers));
        for (std::int64_t piece = 0; piece < buffers * pieces; ++piece)
            for (const Rational& cut : cuts)
                boundaries_.push_back((Rational(piece) + cut) * Rational(1, pieces));
    }

    void copy_cuts(const std::vector<std::int64_t>& begins) {
        std::set<Rational> cuts;  // positions inside a buffer
        for (const Rational& boundary : boundaries_)
            for (const std::int64_t begin : begins)
                if (Rational(begin) <= boundary && boundary <= Rational(begin + 1))
                    cuts.insert(boundary - Rational(begin));
        for (const std::int64_t begin : begins)
            for (const Rational& cut : cuts) boundaries_.push_back(Rational(begin) + cut);
    }

    std::uint32_t index(Rational boundary) const {
        const auto found = std::lower_bound(boundaries_.begin(), boundaries_.end(), boundary);
        return static_cast<std::uint32_t>(found - boundaries_.begin());
    }

    std::vector<Rational> boundaries_{Rational(0), Rational(1)};
};

}  // namespace hocket::dsl
