// What a parameter service calculates: the job's update, and sums of gradients.
#pragma once

#include <memory>

#include "runtime/params/service/calculator.hpp"

namespace hocket::engine {

// A params::MakeCalculator.
std::shared_ptr<const params::Calculator> make_calculator(const params::Job& job);

}  // namespace hocket::engine
