// The clock of the deadlines. It stands still while operations are in flight and the application is busy
// elsewhere, so that a late hkt_wait alone is not a timeout.
#pragma once

#include <chrono>

namespace hocket::engine {

// Not thread-safe: used with the gate held.
class DeadlineClock {
  public:
    using Clock = std::chrono::steady_clock;

    // timeout: of operations. The clock goes on during absences that are short beside it.
    explicit DeadlineClock(std::chrono::milliseconds timeout) : longest_counted_(timeout / share) {}

    // Call when a thread comes back while operations are in flight, and when it leaves them behind.
    void come_in(Clock::time_point now) {
        const auto absence = now - last_seen_;
        if (absence > longest_counted_) away_ += absence;
    }
    void go_out(Clock::time_point now) { last_seen_ = now; }
    Clock::time_point last_seen() const { return last_seen_; }

    // Returns what this clock shows at a time.
    Clock::time_point at(Clock::time_point now) const { return now - away_; }
    // Returns the time at which this clock will show `deadline`, unless it stands still before.
    Clock::time_point when(Clock::time_point deadline) const { return deadline + away_; }

  private:
    static constexpr int share = 4;  // the part of the timeout that a counted absence may take

    std::chrono::milliseconds longest_counted_;
    Clock::time_point last_seen_{};
    Clock::duration away_{0};  // the sum of all absences in which the clock stood still
};

}  // namespace hocket::engine
