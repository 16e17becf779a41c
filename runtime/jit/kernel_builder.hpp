// Generates the code of combine and copy kernels.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include "runtime/jit/kernel_shape.hpp"

namespace hocket::jit {

// Adds the kernel to the module, for the machine given: a Code (kernels.hpp) that calls nothing. It leaves
// nothing for LLVM's passes on IR to improve: the code generator's are enough.
//
// Kernels read all operands in one pass, a block of vectors at a time, then the rest by single vectors and by
// elements. A block of the destinations is written only after that block of every operand was read: that is
// why a destination may be any one of them, and why no check for overlap is generated. For the same reason
// many operands are never combined in groups: the first group would overwrite an operand of the next.
//
// One that streams does whole blocks only, to destinations at the beginning of a cache line.
void build_kernel(const KernelShape& shape, llvm::TargetMachine& machine, llvm::Module& module);

}  // namespace hocket::jit
