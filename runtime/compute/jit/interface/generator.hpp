// The interface between libhocket and the library with LLVM (libhocket_jit.so, from
// runtime/compute/jit/llvm): these functions, and the shapes of code in this folder. libhocket loads the
// library when it first has something to compile (compiler.hpp), because loading LLVM costs a process more
// than the rest of Hocket.
//
// No exception and no type with virtual functions crosses this interface: each side has its own copy of C++'s
// types, so neither would recognize the other's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/interface/device_plan.hpp"
#include "runtime/compute/jit/interface/formula_shape.hpp"
#include "runtime/compute/jit/interface/kernel_shape.hpp"

#define HOCKET_JIT_API extern "C" __attribute__((visibility("default")))

namespace hocket::jit {

// Hocket's version, and a number that increases with every change to this folder or to what it includes. A
// library of another version is refused, also because its code might give other bits.
inline constexpr const char* interface_version = HOCKET_VERSION "/6";
HOCKET_JIT_API const char* hocket_jit_interface_version() noexcept;

// Generates machine code, and owns it. Used by one thread at a time.
struct Generator;

enum class Language : std::uint8_t { llvm_ir, assembly };

// Generates for this machine. changed_features: LLVM's names, "+a,-b"; or "". Returns null if there is no
// memory.
HOCKET_JIT_API Generator* hocket_jit_create(const char* changed_features) noexcept;

// Destroys the generator and its code.
HOCKET_JIT_API void hocket_jit_destroy(Generator* generator) noexcept;

// A generator compiles each kernel once. These return success; internal, with LLVM's message as the text; or
// out_of_memory.
HOCKET_JIT_API Status hocket_jit_compile_kernel(Generator* generator, const KernelShape* shape,
                                                Code* code) noexcept;
HOCKET_JIT_API Status hocket_jit_compile_formula(Generator* generator, const FormulaShape* shape,
                                                 FormulaCode* code) noexcept;

// A plan for a device: its twin for the processor, and the device's own code as text, which depends on
// nothing but without_numbers(shape), and has the line of the numbers' table without its content. internal:
// also if LLVM was built without the device.
HOCKET_JIT_API Status hocket_jit_compile_twin(Generator* generator, const DeviceShape* shape,
                                              bool tells_accesses, TwinCode* code) noexcept;
HOCKET_JIT_API Status hocket_jit_print_ptx(Generator* generator, const DeviceShape* shape) noexcept;

// Prints kernels as text, which does not become code of the generator.
HOCKET_JIT_API Status hocket_jit_print(Generator* generator, const KernelShape* shapes, std::size_t count,
                                       Language language) noexcept;

// Returns the text that the last call printed, or the reason why it failed. Valid until the next call.
HOCKET_JIT_API const char* hocket_jit_text(const Generator* generator) noexcept;

// All functions but the version's, without "hocket_jit_".
#define HOCKET_JIT_FUNCTIONS(X) \
    X(create) X(destroy) X(compile_kernel) X(compile_formula) X(compile_twin) X(print_ptx) X(print) X(text)

}  // namespace hocket::jit
