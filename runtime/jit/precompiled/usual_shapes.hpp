// Which kernels come compiled: those of what frameworks reduce most. Each costs Hocket a kilobyte and 12 ms
// of its build.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/jit/interface/kernel_shape.hpp"

namespace hocket::jit {

// Of so many ranks on one host, whose memories one kernel combines or copies to. (Between hosts, two operands
// are combined at a time.)
inline constexpr std::size_t most_usual_ranks = 8;

// The kernels, and those that stream. Each only once.
std::vector<KernelShape> usual_shapes();

}  // namespace hocket::jit
