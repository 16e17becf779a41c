// Schedules that were read, estimated and proved in this process. A communicator shares them with all
// communicators made from it, such as its groups, so a group's first operation need not repeat that work.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "dsl/planning/compile.hpp"
#include "runtime/base/error.hpp"

namespace hocket::engine {

class Planning {
  public:
    // Holds the planner, which one thread at a time may use.
    class Turn {
      public:
        explicit Turn(Planning& planning) : planning_(&planning) {}
        dsl::Planner& planner() const { return planning_->planner_; }
        bool warns_for_the_first_time() const { return !std::exchange(planning_->has_warned_, true); }

      private:
        struct End {
            void operator()(Planning* planning) const { planning->end_turn(); }
        };
        std::unique_ptr<Planning, End> planning_;
    };

    // Throws Error(timeout) if other threads of this process hold the planner for longer than the timeout.
    Turn turn(std::chrono::milliseconds timeout) {
        std::unique_lock lock(mutex_);
        // Not a timed_mutex: the thread sanitizer does not follow its waits.
        if (!changed_.wait_for(lock, timeout, [this] { return !is_taken_; }))
            throw Error(
                Status::timeout,
                fmt::format("other threads of this process made plans for {} ms, so this one could not\n"
                            "  hint: give it more time (HOCKET_TIMEOUT_MS), or make plans one after "
                            "another (hkt_plan_create) before the work begins",
                            timeout.count()));
        is_taken_ = true;
        return Turn(*this);
    }

  private:
    void end_turn() {
        const std::lock_guard lock(mutex_);
        is_taken_ = false;
        changed_.notify_one();
    }

    std::mutex mutex_;  // guards is_taken_
    std::condition_variable changed_;
    bool is_taken_ = false;
    // The thread that holds the turn uses these.
    bool has_warned_ = false;
    dsl::Planner planner_;
};

}  // namespace hocket::engine
