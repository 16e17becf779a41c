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
#include <optional>

#include "runtime/compute/kernels/cpu/hand_over.hpp"

namespace hocket::engine {

// Not thread-safe: used by the thread that drives operations.
class HandOverPath {
  public:
    // The path of a tile, and true if its time is to be noted, with which sample.
    struct Choice {
        kernels::Path path;
        bool is_timed = false;
        std::size_t sample = 0;
    };

    // Returns the choice for a tile of this many bytes. While measuring, tiles go by one path for a while,
    // then by the other: a path finds lines where it has left them itself, but in the first turns, which are
    // not timed. start: its number in the communicator. The same for the same tile, if no other one was asked
    // for meanwhile.
    Choice next(std::uint64_t bytes, std::uint64_t start, std::uint64_t tile) {
        if (bytes < least_bytes) return {kernels::Path::cache};
        if (!is_on_) return {best_};
        const Turn turn{start, tile / tiles_of_turn};
        if (turn != last_turn_) {
            last_turn_ = turn;
            turns_ = (turns_ + 1) % period;
            if (turns_ == 0) std::fill_n(&samples_[0][0], 2 * timed, Sample{});
        }
        if (turns_ >= 2 * group) return {best_};
        const std::size_t in_group = turns_ % group;
        const auto path = turns_ < group ? kernels::Path::cache : kernels::Path::memory;
        return {path, in_group >= untimed, in_group - std::min(in_group, untimed)};
    }
    kernels::Path best() const { return best_; }

    // Takes this path from now on, and measures nothing.
    void fix(kernels::Path path) {
        best_ = path;
        is_on_ = false;
    }

    // Notes the processor time that a timed tile's work took this rank, and the nanoseconds for each byte
    // that it took the others together.
    void note(const Choice& choice, std::uint64_t bytes, std::chrono::nanoseconds busy, double others = 0) {
        auto& [cache, memory] = samples_;
        Sample& sample = choice.path == kernels::Path::cache ? cache[choice.sample] : memory[choice.sample];
        sample.bytes += static_cast<double>(bytes);
        sample.time += static_cast<double>(busy.count()) + others * static_cast<double>(bytes);
        if (!is_complete(cache) || !is_complete(memory)) return;
        best_ = median(memory) < median(cache) ? kernels::Path::memory : kernels::Path::cache;
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
    // A turn is a start, or that many tiles of a large one. Eight starts use the eight slots in turn, so
    // lines of all of them are where the other path has left them; a large one uses the lines of its own slot
    // again.
    static constexpr std::uint64_t tiles_of_turn = 8;
    static constexpr std::size_t group = 16, untimed = 10, timed = group - untimed, period = 1024;  // turns

    struct Turn {
        std::uint64_t start, tiles;
        friend bool operator==(const Turn&, const Turn&) = default;
    };
    struct Sample {
        double bytes = 0, time = 0;  // of all tiles of a turn, in nanoseconds
    };
    using Samples = std::array<Sample, timed>;

    static bool is_complete(const Samples& samples) {
        return std::ranges::all_of(samples, [](const Sample& sample) { return sample.bytes > 0; });
    }
    // Returns nanoseconds for each byte. Turns of all sizes count alike, and one that was interrupted does
    // not count.
    static double median(const Samples& samples) {
        std::array<double, timed> per_byte;
        std::ranges::transform(samples, per_byte.begin(),
                               [](const Sample& sample) { return sample.time / sample.bytes; });
        std::nth_element(per_byte.begin(), per_byte.begin() + timed / 2, per_byte.end());
        return per_byte[timed / 2];
    }

    kernels::Path best_ = kernels::Path::cache;
    bool is_on_ = true;
    std::optional<Turn> last_turn_;
    std::size_t turns_ = period - 1;  // begun since measuring began
    Samples samples_[2]{};            // by path
};

}  // namespace hocket::engine
