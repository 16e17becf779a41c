// Translates a rank's program into an LLVM module.
#pragma once

#include <llvm/ADT/StringRef.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dsl/rank_program.hpp"
#include "runtime/types.hpp"

namespace hocket::jit {

// The part of a program that code is generated from.
struct CodeSource {
    std::vector<dsl::Rational> boundaries;
    std::vector<dsl::Op> ops;
    DataType type;
    ReduceOp op;
};

// What the module defines and the runtime looks up.
using Bind = void (*)(std::uint64_t count, std::uint64_t* byte_offsets);
using Step = void (*)(std::byte* const* areas, const std::uint64_t* byte_offsets);
inline constexpr llvm::StringRef bind_symbol = "bind";  // a Bind
inline constexpr llvm::StringRef steps_symbol =
    "steps";  // Step[ops], null where the op is no combine or copy

// What it calls, beside memcpy and streaming_head(): floor(num * count / den), for the fractions that 64 bits
// are not enough for.
inline constexpr llvm::StringRef wide_offset_symbol = "wide_offset";
std::uint64_t wide_offset(std::uint64_t num, std::uint64_t den, std::uint64_t count);

// Defines `bind`, `steps`, a function `step_<op>` for every combine and copy, and the kernels that those
// call, for the machine given. It leaves nothing for LLVM's passes on IR to improve: the code generator's are
// enough. Throws hocket::Error(internal) if LLVM's verifier finds fault.
std::unique_ptr<llvm::Module> build_module(const CodeSource& source, llvm::TargetMachine& machine,
                                           llvm::LLVMContext& context);

}  // namespace hocket::jit
