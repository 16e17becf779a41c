// Decides how this rank hands data over to local peers (compute/kernels/cpu/hand_over.hpp), by measuring.
//
// The better path depends on the caches that the ranks' cores share. That differs between processors, and
// also from minute to minute if ranks, or the cores of a virtual machine, move. So some of the tiles that
// are copied anyway are copied by one path and some by the other, and the path whose tiles took the ranks
// less processor time is used for a while. Nothing is measured beforehand, and nothing is kept.
//
// A writer alone would not see that its path makes its readers slower: the root of a broadcast reads nothing.
// So ranks show each other what their tiles took, and each adds what the others took last.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>

#include "runtime/compute/kernels/cpu/hand_over.hpp"

namespace hocket::engine {

// Not thread-safe: used by the thread that drives operations.
class HandOverPath {
  public:
    // The path of a tile, and true if its time is to be noted.
    struct Choice {
        kernels::Path path;
        bool is_timed;
    };

    // Returns the choice for the next tile, of this many bytes. While measuring, tiles go by one path for a
    // while, then by the other: a path finds lines where it has left them itself, but in the first tiles,
    // which are not timed.
    Choice next(std::uint64_t bytes) {
        if (bytes < least_bytes) return {kernels::Path::cache, false};
        if (!is_on_) return {best_, false};
        const std::size_t tile = tiles_;
        tiles_ = (tiles_ + 1) % period;
        if (tile == 0)
            for (Costs& costs : costs_) costs.tiles = 0;
        if (tile >= 2 * group) return {best_, false};
        return {tile < group ? kernels::Path::cache : kernels::Path::memory, tile % group >= untimed};
    }
    // Call if the tile of the last choice is not begun, but chosen again.
    void take_back(std::uint64_t bytes) {
        if (bytes >= least_bytes && is_on_) tiles_ = (tiles_ + period - 1) % period;
    }
    kernels::Path best() const { return best_; }

    // Takes this path from now on, and measures nothing.
    void fix(kernels::Path path) {
        best_ = path;
        is_on_ = false;
    }

    // Notes the processor time that a timed tile's work took this rank, and the nanoseconds for each byte
    // that it took the others together.
    void note(kernels::Path path, std::uint64_t bytes, std::chrono::nanoseconds busy, double others = 0) {
        Costs& costs = costs_[static_cast<std::size_t>(path)];
        if (costs.tiles == timed) return;
        costs.per_byte[costs.tiles++] =
            static_cast<double>(busy.count()) / static_cast<double>(bytes) + others;
        auto& [cache, memory] = costs_;
        if (cache.tiles == timed && memory.tiles == timed)
            best_ = memory.median() < cache.median() ? kernels::Path::memory : kernels::Path::cache;
    }

    // Returns the time for which this thread has had a processor: the same whether or not others took it
    // away.
    static std::chrono::nanoseconds processor_time() {
        timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
    }

  private:
    // Signals and single lines take most of the time of a smaller tile.
    static constexpr std::uint64_t least_bytes = 2 * 1024;
    static constexpr std::size_t group = 8, untimed = 2, timed = group - untimed, period = 512;  // tiles

    struct Costs {
        std::array<double, timed> per_byte;  // in nanoseconds
        std::size_t tiles = 0;

        // Tiles of all sizes count alike, and one that was interrupted does not count.
        double median() {
            std::nth_element(per_byte.begin(), per_byte.begin() + timed / 2, per_byte.end());
            return per_byte[timed / 2];
        }
    };

    kernels::Path best_ = kernels::Path::cache;
    bool is_on_ = true;
    std::size_t tiles_ = 0;  // chosen since measuring began
    Costs costs_[2]{};       // by path
};

}  // namespace hocket::engine
