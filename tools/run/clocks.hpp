// Computes how the clocks of several hosts differ, from moments whose order is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace hocket::tools {

using Nanoseconds = std::int64_t;

// The correction to be added to a clock's time to get the first clock's. It may change during the job: clocks
// of different machines drift apart by microseconds each second.
class Correction {
  public:
    struct Known {
        Nanoseconds at, offset, within;  // the clock's own time; the correction; its uncertainty
    };

    Correction() = default;  // nothing
    explicit Correction(std::vector<Known> known) : known_(std::move(known)) {}

    // Interpolates linearly between two known offsets; before the first and after the last, returns those.
    Nanoseconds offset_at(Nanoseconds time) const;
    Nanoseconds within_at(Nanoseconds time) const;
    const std::vector<Known>& known() const { return known_; }

  private:
    std::vector<Known> known_;  // ascending
};

class Clocks {
  public:
    explicit Clocks(std::size_t clocks) : count_(clocks) {}

    // A collective in which each rank needs data of every other: on this clock, when its first rank ended it,
    // and when its last rank began it.
    struct Part {
        std::size_t clock;
        Nanoseconds last_begun, first_ended;
    };
    void add(const std::vector<Part>& parts);

    // By clock; empty: nothing relates it to clock 0.
    std::vector<std::optional<Correction>> corrections() const;

  private:
    // Clock b's time + offset = clock a's, and the offset is at least `least` and at most `most`.
    struct Bound {
        Nanoseconds at_b, least, most;
    };
    static Correction correction_from(std::vector<Bound> bounds);

    std::size_t count_;
    std::map<std::pair<std::size_t, std::size_t>, std::vector<Bound>> bounds_;  // of b (second) against a
};

}  // namespace hocket::tools
