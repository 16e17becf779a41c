// Kernels that are compiled with Hocket, so that a job with the usual collectives never loads LLVM. The
// generator that also compiles at run time makes them while Hocket is built
// (runtime/compute/jit/llvm/precompile.cpp), for a level of processors (level.hpp) instead of the machine
// that runs them; their bits are the same.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "runtime/compute/jit/interface/kernel_shape.hpp"

namespace hocket::jit {

struct PrecompiledKernel {
    std::string_view name;  // name_of(shape)
    Code code;
};

// Returns true if this build has precompiled kernels and this machine can run them. Thread-safe.
bool has_precompiled_code();

// Returns the code of a kernel of this shape; null if there is none, or if this machine cannot run it.
// Thread-safe.
Code precompiled_code(const KernelShape& shape);

// All precompiled kernels, in the order of their names. Empty in a build without LLVM, for a sanitizer, or
// for a machine other than the one that builds.
extern const std::span<const PrecompiledKernel> precompiled_kernels;

}  // namespace hocket::jit
