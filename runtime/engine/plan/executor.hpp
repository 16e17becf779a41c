// Executes a plan's local work, by generated code or by an interpreter of the same program. Both give bitwise
// identical results.
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

// Returns the executor that `kind` selects in this process, "jit" or "interpreter", as a null-terminated
// text. automatic uses the kernels that came with Hocket (runtime/compute/jit/precompiled) where a program
// needs no others. Otherwise it begins with the interpreter, and compiles a program that is started more than
// a few times; it is the interpreter in a build without LLVM, and once the compiler's library
// (runtime/compute/jit/compiler.hpp) could not be loaded. Throws hocket::Error if the JIT is named but
// unavailable: io, or invalid_argument in a build without it. To find out, it loads the library.
std::string_view name_of(ExecutorKind kind);

// Returns true if that executor is the JIT. Throws as name_of().
bool compiles(ExecutorKind kind);

class Executor {
  public:
    // The program must outlive the executor. Throws hocket::Error.
    static std::unique_ptr<Executor> create(ExecutorKind kind, const dsl::RankProgram& program, DataType type,
                                            const compute::Reduction& op);
    virtual ~Executor() = default;

    // For logs: "precompiled", "jit", "interpreter", or "interpreter, then jit".
    virtual std::string_view name() const = 0;

    // Sets byte_offsets[b] to the offset of boundary b, in bytes, for this layout of x. Thread-safe.
    virtual void bind(const Layout& layout, std::uint64_t* byte_offsets) const = 0;

    // Executes an element-wise operation whose region is not empty. areas[a] is the virtual base of area a
    // (see dsl/projection/rank_program.hpp). Thread-safe.
    virtual void run(dsl::OpId op, std::byte* const* areas, const std::uint64_t* byte_offsets) const = 0;
};

}  // namespace hocket::engine
