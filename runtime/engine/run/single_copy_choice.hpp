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
        const std::size_t start = state.starts;
        if (start < first_measured || start >= first_measured + measured) return {state.is_once_best, false};
        return {(start - first_measured) / group % 2 == 1, true};
    }

    // Counts a start that went by its choice.
    void count(const Kind& kind) {
        State& state = states_[index_of(kind)];
        if (state.starts == first_measured) state.costs[0].starts = state.costs[1].starts = 0;
        state.starts = state.starts + 1 < period ? state.starts + 1 : first_measured;
    }

    // Notes the time of a start that was measured, from when all ranks had come until the last one was done.
    void note(const Kind& kind, bool is_once, std::chrono::nanoseconds time) {
        State& state = states_[index_of(kind)];
        Costs& costs = state.costs[is_once ? 1 : 0];
        costs.per_byte[costs.starts++ % timed] =
            static_cast<double>(time.count()) / static_cast<double>(kind.bytes);
        auto& [tiles, once] = state.costs;
        if (tiles.starts < group || once.starts < group) return;
        const double ratio = once.median() / tiles.median();
        state.is_once_best = ratio < margin && tiles.starts >= timed / 2;
        if (ratio > hopeless) state.starts = std::max(state.starts, first_measured + measured);
    }

  private:
    // Starts. The first ones of a plan are slower: memory is touched for the first time, kernels are not
    // compiled yet, and tiles try both paths to local peers (HandOverPath). Then groups go by the two ways in
    // turn, so that what changes meanwhile hits both alike.
    static constexpr std::size_t first_measured = 48, group = 4, measured = 8 * group, period = 4096,
                                 timed = measured / 2;
    // A single copy that is as fast is not taken: the choice would change with each measurement.
    static constexpr double margin = 0.95;
    // After its first group, a single copy that is so much slower is not measured further.
    static constexpr double hopeless = 1.25;

    struct Costs {
        std::array<double, timed> per_byte;  // in nanoseconds
        std::size_t starts = 0;

        double median() {
            const auto end = per_byte.begin() + static_cast<std::ptrdiff_t>(std::min(starts, timed));
            const auto middle = per_byte.begin() + (end - per_byte.begin()) / 2;
            std::nth_element(per_byte.begin(), middle, end);
            return *middle;
        }
    };
    struct State {
        std::size_t starts = 0;  // chosen so far, modulo periods
        bool is_once_best = false;
        Costs costs[2]{};  // through tiles; copied once
    };

    static std::size_t index_of(const Kind& kind) {
        return static_cast<std::size_t>(std::bit_width(kind.bytes)) * 2 + (kind.is_in_place ? 1 : 0);
    }

    std::array<State, 2 * 65> states_{};
};

}  // namespace hocket::engine
