// What was read of schedules, estimated and proved in this process: by a communicator, and by all that come
// out of it, its groups among them. So a group's first operation need not do it again.
#pragma once

#include <mutex>

#include "dsl/planning/compile.hpp"

namespace hocket::engine {

struct Planning {
    std::mutex mutex;  // guards the planner
    dsl::Planner planner;
};

}  // namespace hocket::engine
