// Decides how long a rank that waits yields its core before it sleeps.
#pragma once

#include <algorithm>
#include <chrono>

namespace hocket::engine {

// A yield costs little if no other thread needs the core, and gives the core to a rank that this one waits
// for, if that has none. It fails to do so in two cases. A program that computes on this core keeps it for a
// whole time slice; a thread that wakes up runs before such a program, so a rank had better sleep. And the
// kernel may choose the rank that yields again and again although others are ready, if they have run for
// longer; then only a sleep lets them go on. Times are for each rank that shares the core. Not thread-safe.
class Yields {
  public:
    using Duration = std::chrono::steady_clock::duration;

    explicit Yields(int ranks_per_core)
        : most_(longest * ranks_per_core),
          least_(ranks_per_core > 1 ? most_ / least_part : most_),
          long_yield_(longest_yield * ranks_per_core),
          time_(most_) {}

    void begin_wait() { has_yielded_ = false; }
    // Returns false if the rank had better sleep now. quiet: the time since something moved.
    bool may_go_on(Duration quiet) {
        if (quiet >= time_) return false;
        if (waits_without_ == 0) return true;
        --waits_without_;
        return false;
    }
    void note_yield(Duration took) {
        has_yielded_ = true;
        if (took > long_yield_) waits_without_ = waits_after_long_yield;
    }
    // The wait is over: something moved.
    void note_movement() {
        if (has_yielded_) time_ = std::min(2 * time_, most_);
        has_yielded_ = false;
    }
    // The yields were in vain.
    void note_sleep() {
        if (has_yielded_) time_ = std::max(time_ / 2, least_);
        has_yielded_ = false;
    }

    Duration time() const { return time_; }

  private:
    // Several times the time to wake up. With less, two ranks that wait for each other in turn would never be
    // awake together again once one of them has slept.
    static constexpr auto longest = std::chrono::microseconds(300);
    // Where yields are in vain, this part of the time is left: several yields that succeed, so that a rank
    // finds out that they do.
    static constexpr int least_part = 128;
    static constexpr auto longest_yield = std::chrono::microseconds(500);
    static constexpr int waits_after_long_yield = 20;

    Duration most_, least_, long_yield_, time_;
    int waits_without_ = 0;
    bool has_yielded_ = false;  // in this wait
};

}  // namespace hocket::engine
