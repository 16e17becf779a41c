// Generates the code of combine, copy and multiplication kernels.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include "runtime/compute/jit/interface/kernel_shape.hpp"
#include "runtime/compute/jit/llvm/device_target.hpp"

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

// Adds an internal function that the threads of a block call together, each for its share. It has Code's
// parameters, and then the factor of the input (double), and the target's context. Divisors are constants,
// and nothing streams.
llvm::Function* build_shared_kernel(const KernelShape& shape, const DeviceTarget& target,
                                    llvm::TargetMachine& machine, llvm::Module& module);

}  // namespace hocket::jit
