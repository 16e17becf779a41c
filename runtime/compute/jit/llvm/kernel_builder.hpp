// Generates the code of combine and copy kernels.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include "runtime/compute/jit/interface/kernel_shape.hpp"

namespace hocket::jit {

// Adds the kernel to the module, for the given machine: a Code (kernel_shape.hpp) that calls no function.
// LLVM's passes on IR would not improve it; the code generator's passes are enough.
//
// A kernel reads all operands in one pass: a block of vectors at a time, then the rest by single vectors and
// by elements. It writes a block of the destinations only after it has read that block of every operand, so a
// destination may be any one of the operands, and no check for overlap is generated. For the same reason
// operands are never combined in groups, however many there are: the first group would overwrite an operand
// of the next.
//
// A streaming kernel works only on whole blocks, and on destinations that begin at a cache line.
void build_kernel(const KernelShape& shape, llvm::TargetMachine& machine, llvm::Module& module);

}  // namespace hocket::jit
