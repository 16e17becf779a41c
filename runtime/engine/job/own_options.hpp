// Options of a process that need not be part of a job.
#pragma once

#include "runtime/engine/job/options.hpp"

namespace hocket::engine {

// Reads the process's environment. Throws as resolve() does.
inline Options own_options() {
    Choices alone;
    alone.rank = 0, alone.world_size = 1, alone.meets_elsewhere = true;
    return resolve(alone);
}

}  // namespace hocket::engine
