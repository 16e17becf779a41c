// Translates hkt_overlap_method and hkt_overlap_pulls.
#pragma once

#include <cstdint>

#include "runtime/overlap/iteration.hpp"

namespace hocket::capi {

// options: the name of the struct that the number is from. Throws Error(invalid_argument).
overlap::Method method_of(const char* options, std::int32_t method);

// Translates the field of hkt_overlap_run_options. Throws Error(invalid_argument).
overlap::Pulls pulls_of(std::int64_t pulls);

}  // namespace hocket::capi
