// Generates the kernel that runs a rank's program on a device, and its twin for the processor.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include "runtime/compute/jit/llvm/device_target.hpp"

namespace hocket::jit {

// Adds the kernel to the module: the target's entry, and internal functions for waits and for each kind of
// kernel that the program has.
void build_device_plan(const DeviceShape& shape, const DeviceTarget& target, llvm::TargetMachine& machine,
                       llvm::Module& module);

}  // namespace hocket::jit
