// A buffer divided into atoms: the finest pieces that any of some regions divides it into. Counting atoms
// instead of comparing fractions is what makes verification and projection fast.
#pragma once

#include <algorithm>
#include <vector>

#include "dsl/region.hpp"

namespace hocket::dsl {

// Half-open; atom i lies between boundaries i and i + 1.
struct AtomRange {
    std::uint32_t begin = 0, end = 0;
};

class Atoms {
  public:
    void add(const std::vector<Region>& regions) {
        for (const Region& region : regions)
            for (const Interval& interval : region) {
                boundaries_.push_back(interval.begin);
                boundaries_.push_back(interval.end);
            }
    }
    // After the last add, before everything else.
    void settle() {
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
    std::uint32_t index(Rational boundary) const {
        const auto found = std::lower_bound(boundaries_.begin(), boundaries_.end(), boundary);
        return static_cast<std::uint32_t>(found - boundaries_.begin());
    }

    std::vector<Rational> boundaries_{Rational(0), Rational(1)};
};

}  // namespace hocket::dsl
