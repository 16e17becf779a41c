// Records whether an operation is in flight whose starting call did not wait for it.
#pragma once

#include <atomic>
#include <cstdint>

namespace hocket::engine {

// Thread-safe.
class LeftAlone {
  public:
    void note_start() {
        starts_.fetch_add(1, std::memory_order_relaxed);
        wake();
    }
    // Notes that nothing is in flight.
    void note_idle() {
        if (is_any()) is_any_.store(false);
    }
    // Ends wait(), as a start does.
    void wake() {
        is_any_.store(true);
        is_any_.notify_all();
    }

    bool is_any() const { return is_any_.load(); }
    void wait() const { is_any_.wait(false); }
    std::uint64_t starts() const { return starts_.load(std::memory_order_relaxed); }  // so far

  private:
    std::atomic<bool> is_any_{false};
    std::atomic<std::uint64_t> starts_{0};
};

}  // namespace hocket::engine
