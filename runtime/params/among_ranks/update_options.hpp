// Reads how this process finds and runs updates, from the settings that ranks use.
#pragma once

#include "runtime/engine/job/own_options.hpp"
#include "runtime/params/service/calculator.hpp"

namespace hocket::params {

// Reads HOCKET_SCHEDULE_PATH and HOCKET_EXECUTOR from the process's environment. Throws what resolve()
// throws.
inline UpdateOptions own_update_options() {
    engine::Options own = engine::own_options();
    return {std::move(own.schedule_path), own.executor != engine::ExecutorKind::interpreter};
}

}  // namespace hocket::params
