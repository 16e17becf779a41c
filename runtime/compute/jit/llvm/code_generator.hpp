// Generates machine code from shapes, with LLVM.
#pragma once

#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "runtime/compute/jit/interface/device_plan.hpp"
#include "runtime/compute/jit/interface/formula_shape.hpp"
#include "runtime/compute/jit/interface/kernel_shape.hpp"

namespace hocket::jit {

// Used by one thread at a time. All functions throw hocket::Error(internal) with LLVM's message.
class CodeGenerator {
  public:
    // cpu: the processor to generate for, by LLVM's name; "" for this machine's. changed_features: LLVM's
    // names, "+a,-b".
    explicit CodeGenerator(const std::string& changed_features, const std::string& cpu = "");

    // Each kernel may be compiled only once. The code lives as long as this object.
    Code compile(const KernelShape& shape);
    FormulaCode compile(const FormulaShape& shape);
    TwinCode compile_twin(const DeviceShape& shape, bool tells_accesses);

    // Returns the device's code, for every device from compute capability 8.0 on.
    std::string ptx(const DeviceShape& shape);

    std::string llvm_ir(std::span<const KernelShape> shapes);
    std::string assembly(std::span<const KernelShape> shapes);

    // Returns an object file, to be linked into a library. Its functions are hidden, and named after the
    // kernels, with the prefix.
    std::string object(std::span<const KernelShape> shapes, const std::string& prefix);

  private:
    static std::string emit(llvm::TargetMachine& machine, llvm::Module& module, llvm::CodeGenFileType type);
    llvm::orc::ExecutorAddr add(std::unique_ptr<llvm::Module> module,
                                std::unique_ptr<llvm::LLVMContext> context, const std::string& name);

    llvm::orc::JITTargetMachineBuilder builder_;
    std::unique_ptr<llvm::TargetMachine> machine_;
    std::unique_ptr<llvm::orc::LLJIT> jit_;
    std::size_t formulas_ = 0, twins_ = 0;  // the numbers of those that have names
};

}  // namespace hocket::jit
