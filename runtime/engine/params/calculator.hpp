// What a parameter service calculates: the job's update, and sums of gradients.
#pragma once

#include <memory>

#include "runtime/params/service/calculator.hpp"

namespace hocket::engine {

// Puts the statements of the update into the job, in place of its name: all processes calculate the same
// then, whatever schedule files they have. And says whether tensors may be cut for it. Names are looked up as
// HOCKET_SCHEDULE_PATH says. Throws what UpdateRule::find does.
void settle_update(params::Job& job);

// A params::MakeCalculator.
std::shared_ptr<const params::Calculator> make_calculator(const params::Job& job);

}  // namespace hocket::engine
