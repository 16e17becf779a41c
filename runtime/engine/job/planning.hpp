// What was read of schedules, estimated and proved in this process: by a communicator, and by all that come
// out of it, its groups among them. So a group's first operation need not do it again.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <utility>

#include "dsl/planning/compile.hpp"
#include "runtime/error.hpp"

namespace hocket::engine {

class Planning {
  public:
    // The planner, for one thread at a time.
    struct Turn {
        std::unique_lock<std::timed_mutex> lock;
        dsl::Planner& planner;
    };
    // Throws Error(timeout) if other threads of this process plan for longer than that.
    Turn turn(std::chrono::milliseconds timeout) {
        std::unique_lock lock(mutex_, timeout);
        if (!lock)
            throw Error(
                Status::timeout,
                fmt::format("other threads of this process were making plans, of this communicator or "
                            "of one that it has its schedules in common with, for {} ms\n"
                            "  hint: give it more time (HOCKET_TIMEOUT_MS), or make plans one after "
                            "another (hkt_plan_create) before the work begins",
                            timeout.count()));
        return {std::move(lock), planner_};
    }

  private:
    std::timed_mutex mutex_;
    dsl::Planner planner_;
};

}  // namespace hocket::engine
