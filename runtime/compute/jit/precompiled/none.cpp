// In place of what runtime/compute/jit/llvm/precompile.cpp generates, in a build that has no precompiled
// kernels.
#include "runtime/compute/jit/precompiled/precompiled.hpp"

namespace hocket::jit {

extern const std::span<const PrecompiledKernel> precompiled_kernels = {};

}  // namespace hocket::jit
