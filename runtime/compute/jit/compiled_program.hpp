// A rank's program as calls of machine code: of kernels that all programs of the process share (kernels.hpp).
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
    // defined: if not empty, what is made of the elements 0 and 1 where the program combines; then `op` is
    // not looked at. Compiles a program for this machine's CPU. The program must keep the rules
    // (engine/plan/program_rules.hpp). Throws what compiler.hpp does. Thread-safe.
    static std::unique_ptr<CompiledProgram> compile(const dsl::RankProgram& program, DataType type,
                                                    ReduceOp op, const dsl::Formula& defined = {});
    // Of kernels that came with Hocket alone; loads no compiler, then or later. Null if one of them did not
    // come. Else like compile().
    static std::unique_ptr<CompiledProgram> of_precompiled(const dsl::RankProgram& program, DataType type,
                                                           ReduceOp op, const dsl::Formula& defined = {});
    virtual ~CompiledProgram() = default;

    // byte_offsets[b] = the layout's offset of boundaries[b] * element size, for all boundaries of the
    // program. Compiles the kernels that only operations of that size need; throws like compile().
    // Thread-safe.
    virtual void bind(const Layout& layout, std::uint64_t* byte_offsets) const = 0;

    // Runs operation `op` (a combine or a copy) of the program, for offsets that bind() gave. areas[a] is the
    // virtual base of area a (see rank_program.hpp). Thread-safe.
    virtual void run(dsl::OpId op, std::byte* const* areas, const std::uint64_t* byte_offsets) const = 0;

    // For `schedc explain --emit llvm|asm`: the kernels that operations may call, as text. Made on demand.
    virtual std::string llvm_ir() const = 0;
    virtual std::string assembly() const = 0;
};

}  // namespace hocket::jit
