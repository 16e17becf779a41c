// Lists the kernels that are compiled with Hocket: those for the reductions that frameworks use most. Each
// costs Hocket about a kilobyte, and its build some milliseconds.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/compute/jit/interface/kernel_shape.hpp"

namespace hocket::jit {

// The most operands and destinations: the ranks of a host, whose memories one kernel combines or copies to.
// Data from other hosts are an operand, too.
inline constexpr std::size_t most_usual_ranks = 8;

// Returns the kernels and their streaming versions, each once. Averages have a divisor_by_call.
std::vector<KernelShape> usual_shapes();

}  // namespace hocket::jit
