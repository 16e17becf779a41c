// Carries out a plan's local work: generated code, or an interpreter that walks the same program. Both give
// the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "dsl/projection/rank_program.hpp"
#include "runtime/base/layout.hpp"
#include "runtime/base/types.hpp"
#include "runtime/compute/program/reduction.hpp"

namespace hocket::engine {

enum class ExecutorKind : std::uint8_t { automatic, jit, interpreter };

// "jit" or "interpreter", with a 0 behind it: what `kind` means in this process. automatic takes the kernels
// that came with Hocket (runtime/compute/jit/precompiled) where a program needs no others. Else it begins
// with the interpreter, and compiles what is started more than a few times; it is the interpreter in a build
// without LLVM, and once the compiler's library (runtime/compute/jit/compiler.hpp) could not be loaded.
// Throws hocket::Error if the JIT is asked for by name and not there: io, or invalid_argument in a build
// without it. For that it loads the library.
std::string_view name_of(ExecutorKind kind);

// Whether that is the JIT. Throws the same.
bool compiles(ExecutorKind kind);

class Executor {
  public:
    // The program must outlive the executor. Throws hocket::Error.
    static std::unique_ptr<Executor> create(ExecutorKind kind, const dsl::RankProgram& program, DataType type,
                                            const compute::Reduction& op);
    virtual ~Executor() = default;

    // For logs: "precompiled", "jit", "interpreter", or "interpreter, then jit".
    virtual std::string_view name() const = 0;

    // byte_offsets[b] = offset of boundary b, in bytes, as x is laid out. Thread-safe.
    virtual void bind(const Layout& layout, std::uint64_t* byte_offsets) const = 0;

    // Carries out a combine or a copy whose region is not empty. areas[a] is the virtual base of area a
    // (see dsl/projection/rank_program.hpp). Thread-safe.
    virtual void run(dsl::OpId op, std::byte* const* areas, const std::uint64_t* byte_offsets) const = 0;
};

}  // namespace hocket::engine
