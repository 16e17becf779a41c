// How this process finds updates and runs them, by the same settings as ranks have.
#pragma once

#include "runtime/engine/job/own_options.hpp"
#include "runtime/params/service/calculator.hpp"

namespace hocket::params {

// From the process's environment: HOCKET_SCHEDULE_PATH and HOCKET_EXECUTOR. Throws what resolve() does.
inline UpdateOptions own_update_options() {
    engine::Options own = engine::own_options();
    return {std::move(own.schedule_path), own.executor != engine::ExecutorKind::interpreter};
}

}  // namespace hocket::params
