// Replaces the output of runtime/compute/jit/llvm/precompile.cpp in a build without precompiled kernels.
#include "runtime/compute/jit/precompiled/precompiled.hpp"

namespace hocket::jit {

extern const std::span<const PrecompiledKernel> precompiled_kernels = {};

}  // namespace hocket::jit
