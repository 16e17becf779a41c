// Kernels that come compiled with Hocket, so that a job of the usual collectives never loads LLVM. They are
// made when Hocket is built, by the generator that also compiles at run time
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

// Whether this build has any, and this machine can run them. Thread-safe.
bool has_precompiled_code();

// The code for a kernel of this shape; null if none comes with Hocket, or this machine cannot run it.
// Thread-safe.
Code precompiled_code(const KernelShape& shape);

// All of them, in the order of their names; none in a build without LLVM, for a sanitizer, or on another
// machine than the one that it is for.
extern const std::span<const PrecompiledKernel> precompiled_kernels;

}  // namespace hocket::jit
