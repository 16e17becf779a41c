// Decides how this rank hands data over to local peers (compute/kernels/cpu/hand_over.hpp), by measuring.
//
// The better path depends on the caches that the ranks' cores share. That differs between processors, and
// also from minute to minute if ranks, or the cores of a virtual machine, move. So some of the tiles that
// are copied anyway are copied by one path and some by the other, and the path whose tiles kept this rank
// busy for less time is used for a while. Nothing is measured beforehand, and nothing is kept.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>

#include "runtime/compute/kernels/cpu/hand_over.hpp"

namespace hocket::engine {

// Not thread-safe: used by the thread that drives operations.
class HandOverPath {
  public:
    // Returns the path for a tile. number: the start's sequence number plus the tile's, so that all ranks
    // that measure use the same path for the same tile. While measuring, the paths follow the Thue-Morse
    // sequence, so that no period in the program's starts favours one of them.
    kernels::Path path_of(std::uint64_t number) const {
        if (!is_measuring()) return best_;
        return std::popcount(number) % 2 == 0 ? kernels::Path::cache : kernels::Path::memory;
    }
    kernels::Path best() const { return best_; }
    bool is_measuring() const { return is_on_ && tiles_ < measured_tiles; }

    // Takes this path from now on, and measures nothing: where ranks share cores, times say nothing.
    void fix(kernels::Path path) {
        best_ = path;
        is_on_ = false;
    }

    // Returns true if a tile of so many bytes is to be noted.
    bool measures(std::uint64_t bytes) const { return is_on_ && bytes >= least_bytes; }

    // Notes a tile that was copied by this path, and how long it kept the rank busy, without waits.
    void note(kernels::Path path, std::uint64_t bytes, std::chrono::nanoseconds busy) {
        if (++tiles_ > period) return begin_again();
        if (tiles_ <= warm_up || tiles_ > measured_tiles) return;
        Costs& costs = costs_[static_cast<std::size_t>(path)];
        costs.per_byte[costs.tiles++] = static_cast<double>(busy.count()) / static_cast<double>(bytes);
        if (tiles_ == measured_tiles) decide();
    }

  private:
    // Of smaller tiles, signals take most of the time, not copies.
    static constexpr std::uint64_t least_bytes = 16 * 1024;
    // The first tiles after a change of paths find lines where the other path has left them.
    static constexpr int warm_up = 2, measured_tiles = 14, period = 512;

    struct Costs {
        std::array<double, measured_tiles> per_byte;  // in nanoseconds
        std::size_t tiles = 0;

        // Tiles of all sizes count alike, and one that was interrupted does not count.
        double median() {
            const auto middle = per_byte.begin() + static_cast<std::ptrdiff_t>(tiles / 2);
            std::nth_element(per_byte.begin(), middle, per_byte.begin() + static_cast<std::ptrdiff_t>(tiles));
            return *middle;
        }
    };

    void begin_again() {
        tiles_ = 0;
        for (Costs& costs : costs_) costs.tiles = 0;
    }
    void decide() {
        auto& [cache, memory] = costs_;
        if (cache.tiles == 0 || memory.tiles == 0) return;
        best_ = memory.median() < cache.median() ? kernels::Path::memory : kernels::Path::cache;
    }

    kernels::Path best_ = kernels::Path::cache;
    bool is_on_ = true;
    int tiles_ = 0;     // noted since measuring began
    Costs costs_[2]{};  // by path
};

}  // namespace hocket::engine
