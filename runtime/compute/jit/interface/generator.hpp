// What libhocket and the library that has LLVM (libhocket_jit.so, from runtime/compute/jit/llvm) know of each
// other: these functions, and the shapes of code in this folder. libhocket loads the library when it first
// has something to compile (compiler.hpp), because to load LLVM costs a process more than all the rest of
// Hocket.
//
// No exception and no type with virtual functions goes through these functions. Each side has its own copy of
// C++'s types, so neither would know the other's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/interface/formula_shape.hpp"
#include "runtime/compute/jit/interface/kernel_shape.hpp"

#define HOCKET_JIT_API extern "C" __attribute__((visibility("default")))

namespace hocket::jit {

// Hocket's version, and a number that a change of anything in this folder, or of what it includes, takes the
// next of: a library of another version is refused. Code of another Hocket could also give other bits.
inline constexpr const char* interface_version = HOCKET_VERSION "/2";
HOCKET_JIT_API const char* hocket_jit_interface_version() noexcept;

// Makes machine code, and keeps it. For one thread at a time.
struct Generator;

enum class Language : std::uint8_t { llvm_ir, assembly };

// For this machine. changed_features: LLVM's names, "+a,-b"; or "". Null: no memory.
HOCKET_JIT_API Generator* hocket_jit_create(const char* changed_features) noexcept;

// Its code is gone, too.
HOCKET_JIT_API void hocket_jit_destroy(Generator* generator) noexcept;

// Each kernel is compiled once by a generator. These return success; internal, with LLVM's words as the text;
// or out_of_memory.
HOCKET_JIT_API Status hocket_jit_compile_kernel(Generator* generator, const KernelShape* shape,
                                                Code* code) noexcept;
HOCKET_JIT_API Status hocket_jit_compile_formula(Generator* generator, const FormulaShape* shape,
                                                 FormulaCode* code) noexcept;

// Kernels as text, which is not code of the generator.
HOCKET_JIT_API Status hocket_jit_print(Generator* generator, const KernelShape* shapes, std::size_t count,
                                       Language language) noexcept;

// What the last of these calls has printed, or why it failed. Valid until the next one.
HOCKET_JIT_API const char* hocket_jit_text(const Generator* generator) noexcept;

// All but the version, without "hocket_jit_".
#define HOCKET_JIT_FUNCTIONS(X) X(create) X(destroy) X(compile_kernel) X(compile_formula) X(print) X(text)

}  // namespace hocket::jit
