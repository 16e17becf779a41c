// Which kernels come compiled: those of what frameworks reduce most. Each costs Hocket about a kilobyte, and
// its build some milliseconds.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/compute/jit/interface/kernel_shape.hpp"

namespace hocket::jit {

// Up to so many operands and destinations: the ranks of a host, whose memories one kernel combines or copies
// to. What comes from other hosts is an operand, too.
inline constexpr std::size_t most_usual_ranks = 8;

// The kernels, and those that stream; averages by a divisor_by_call. Each only once.
std::vector<KernelShape> usual_shapes();

}  // namespace hocket::jit
