// Decides for all ranks of a host whether a start's private buffers go through tiles, or are copied once, by
// the kernel (peer_memory.hpp), by measuring.
//
// Tiles are two copies that overlap, in two processes; a single copy has a system call and looks up each
// page. The faster way depends on the size, the processor, the kernel, and on whether ranks share cores. So
// some starts of each size go by one way, some by the other, and the way whose starts took less time is used
// for a while. Nothing is measured beforehand, and nothing is kept.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace hocket::engine {

// Of one execution of a plan, at the rank that decides: starts of a plan that are in flight at once have one
// each. Not thread-safe.
class SingleCopyChoice {
  public:
    // Starts are measured together if they are equally large within a factor of two. In place they are not
    // the same work.
    struct Kind {
        std::uint64_t bytes;  // of x
        bool is_in_place;
    };

    // The way of a start, and true if its time is to be noted.
    struct Choice {
        bool is_once = false, is_measured = false;
    };

    // Returns the choice for the next start of this kind. The time of the one before may be noted later.
    Choice next(const Kind& kind) const {
        const State& state = states_[index_of(kind)];
        const Pace pace(kind.bytes);
        const std::size_t start = state.starts;
        if (start < pace.first_measured || start >= pace.end()) return {state.is_once_best, false};
        const std::size_t number = (start - pace.first_measured) / pace.group;
        return {(number + 1) / 2 % 2 == 1, true};
    }

    // Counts a start that went by its choice.
    void count(const Kind& kind) {
        State& state = states_[index_of(kind)];
        const std::size_t first = Pace(kind.bytes).first_measured;
        if (state.starts == first)
            state.costs[0].starts = state.costs[1].starts = 0, state.is_hopeless = false;
        state.starts = state.starts + 1 < period ? state.starts + 1 : first;
    }

    // Notes the time of a start that was measured, from when all ranks had come until the last one was done.
    void note(const Kind& kind, bool is_once, std::chrono::nanoseconds time) {
        State& state = states_[index_of(kind)];
        if (state.is_hopeless) return;
        Costs& costs = state.costs[is_once ? 1 : 0];
        costs.per_byte[costs.starts++ % most_timed] =
            static_cast<double>(time.count()) / static_cast<double>(kind.bytes);
        auto& [tiles, once] = state.costs;
        const Pace pace(kind.bytes);
        if (tiles.starts < least_timed || once.starts < least_timed) return;
        const double by_tiles = tiles.median();
        state.is_once_best = once.median() < margin * by_tiles && tiles.starts >= pace.timed() / 2;
        state.is_hopeless = once.least() > hopeless * by_tiles;
        if (!state.is_hopeless) return;
        state.is_once_best = false;
        state.starts = std::max(state.starts, pace.end());
    }

  private:
    // The starts of a size that are measured. The first ones of a plan are slower: memory is touched for the
    // first time, kernels are not compiled yet, and tiles try both paths to local peers (HandOverPath). Then
    // groups go by tiles, twice by a single copy, twice by tiles and so on, so that what changes meanwhile
    // hits both alike, also buffers that are new and touched for the first time. From 2 MiB on a start has 8
    // or more tiles, which count as starts for the paths, so fewer starts are slow.
    struct Pace {
        explicit Pace(std::uint64_t bytes) : first_measured(48), group(most_group) {
            // The same for all starts that are measured together.
            const std::uint64_t mib = std::bit_floor(bytes) >> 20;
            if (mib > 1) first_measured = std::max<std::uint64_t>(2 * first_measured / mib, 4);
            if (mib > 1) group = 2;
        }
        std::size_t timed() const { return groups / 2 * group; }  // of each way
        std::size_t end() const { return first_measured + groups * group; }
        std::size_t first_measured, group;
    };
    static constexpr std::size_t groups = 8, most_group = 4, least_timed = 4,
                                 most_timed = groups / 2 * most_group, period = 4096;
    // A single copy that is as fast is not taken: the choice would change with each measurement.
    static constexpr double margin = 0.95;
    // If even the fastest single copy of those measured is so much slower, no further ones are measured. Not
    // their median: of the four starts of a first group, two often take three times as long as the others.
    static constexpr double hopeless = 1.25;

    struct Costs {
        std::array<double, most_timed> per_byte;  // in nanoseconds
        std::size_t starts = 0;

        double median() {
            const auto end = per_byte.begin() + static_cast<std::ptrdiff_t>(std::min(starts, most_timed));
            const auto middle = per_byte.begin() + (end - per_byte.begin()) / 2;
            std::nth_element(per_byte.begin(), middle, end);
            return *middle;
        }
        double least() const {
            return *std::min_element(per_byte.begin(), per_byte.begin() + static_cast<std::ptrdiff_t>(
                                                                              std::min(starts, most_timed)));
        }
    };
    struct State {
        std::size_t starts = 0;  // chosen so far, modulo periods
        bool is_once_best = false, is_hopeless = false;
        Costs costs[2]{};  // through tiles; copied once
    };

    static std::size_t index_of(const Kind& kind) {
        return static_cast<std::size_t>(std::bit_width(kind.bytes)) * 2 + (kind.is_in_place ? 1 : 0);
    }

    std::array<State, 2 * 65> states_{};
};

}  // namespace hocket::engine
