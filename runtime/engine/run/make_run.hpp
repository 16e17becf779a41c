// Decides which way a plan's starts are run.
#pragma once

#include <memory>

#include "runtime/engine/run/run.hpp"

namespace hocket::engine {

class Execution;

// execution: the run belongs to it, and the run's messages name it.
std::unique_ptr<Run> make_run(const Plan& plan, Execution& execution);

}  // namespace hocket::engine
