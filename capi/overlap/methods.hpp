// hkt_overlap_method, translated.
#pragma once

#include <cstdint>

#include "runtime/overlap/planner.hpp"

namespace hocket::capi {

// options: the struct that the number is from. Throws Error(invalid_argument).
overlap::Method method_of(const char* options, std::int32_t method);

}  // namespace hocket::capi
