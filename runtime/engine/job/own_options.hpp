// Options of a process by itself, which need not be part of a job.
#pragma once

#include "runtime/engine/job/options.hpp"

namespace hocket::engine {

// From the process's environment. Throws what resolve() does.
inline Options own_options() {
    Choices alone;
    alone.rank = 0, alone.world_size = 1, alone.meets_elsewhere = true;
    return resolve(alone);
}

}  // namespace hocket::engine
