// A rank's program as calls of machine code. All programs of the process share the kernels (kernels.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dsl/projection/rank_program.hpp"
#include "runtime/base/layout.hpp"
#include "runtime/base/types.hpp"

namespace hocket::jit {

class CompiledProgram {
  public:
    // Compiles a program for this machine's CPU. defined: if not empty, the formula of elements 0 and 1 that
    // combines; then `op` is ignored. The program must satisfy engine/plan/program_rules.hpp. Throws what
    // compiler.hpp does. Thread-safe.
    static std::unique_ptr<CompiledProgram> compile(const dsl::RankProgram& program, DataType type,
                                                    ReduceOp op, const dsl::Formula& defined = {});
    // Like compile(), but uses only kernels that were compiled with Hocket, and never loads the compiler.
    // Returns null if one of them is missing.
    static std::unique_ptr<CompiledProgram> of_precompiled(const dsl::RankProgram& program, DataType type,
                                                           ReduceOp op, const dsl::Formula& defined = {});
    virtual ~CompiledProgram() = default;

    // Sets byte_offsets[b] to the layout's offset of boundaries[b] * element size, for all boundaries of the
    // program. Compiles the kernels that only operations of that size need; throws like compile().
    // Thread-safe.
    virtual void bind(const Layout& layout, std::uint64_t* byte_offsets) const = 0;

    // Runs the element-wise operation `op` of the program, for offsets from bind(). areas[a] is the virtual
    // base of area a (see rank_program.hpp). Thread-safe.
    virtual void run(dsl::OpId op, std::byte* const* areas, const std::uint64_t* byte_offsets) const = 0;

    // For `schedc explain --emit llvm|asm`: return the kernels that operations may call, as text, generated
    // on demand.
    virtual std::string llvm_ir() const = 0;
    virtual std::string assembly() const = 0;
};

}  // namespace hocket::jit
