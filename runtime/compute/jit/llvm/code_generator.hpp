// Machine code from shapes, by LLVM.
#pragma once

#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/compute/jit/interface/formula_shape.hpp"
#include "runtime/compute/jit/interface/kernel_shape.hpp"

namespace hocket::jit {

// For one thread at a time. All functions throw hocket::Error(internal) with LLVM's words.
class CodeGenerator {
  public:
    // For this machine, or for another processor: cpu is LLVM's name of it, "" for this machine's.
    // changed_features: LLVM's names, "+a,-b".
    explicit CodeGenerator(const std::string& changed_features, const std::string& cpu = "");

    // Each kernel only once. The code lives as long as this.
    Code compile(const KernelShape& shape);
    FormulaCode compile(const FormulaShape& shape);

    std::string llvm_ir(std::span<const KernelShape> shapes);
    std::string assembly(std::span<const KernelShape> shapes);

    // An object file, to be linked into a library. Its functions are hidden; their names are the kernels',
    // after the prefix.
    std::string object(std::span<const KernelShape> shapes, const std::string& prefix);

  private:
    std::string emit(llvm::Module& module, llvm::CodeGenFileType type);
    llvm::orc::ExecutorAddr add(std::unique_ptr<llvm::Module> module,
                                std::unique_ptr<llvm::LLVMContext> context, const std::string& name);

    llvm::orc::JITTargetMachineBuilder builder_;
    std::unique_ptr<llvm::TargetMachine> machine_;
    std::unique_ptr<llvm::orc::LLJIT> jit_;
    std::size_t formulas_ = 0;  // that have names
};

}  // namespace hocket::jit
