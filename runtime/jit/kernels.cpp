#include "runtime/jit/kernels.hpp"

#include <fmt/format.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/error.hpp"
#include "runtime/jit/formula_builder.hpp"
#include "runtime/jit/formula_kernel.hpp"
#include "runtime/jit/kernel_builder.hpp"

namespace hocket::jit {
namespace {

namespace orc = llvm::orc;

[[noreturn]] void fail(const char* what, const std::string& why) {
    throw Error(
        Status::internal,
        fmt::format("JIT: cannot {}: {}; HOCKET_EXECUTOR=interpreter runs plans without it", what, why));
}

void check(const char* what, llvm::Error error) {
    if (error) fail(what, llvm::toString(std::move(error)));
}

template <typename T>
T take(const char* what, llvm::Expected<T> value) {
    if (!value) fail(what, llvm::toString(value.takeError()));
    return std::move(*value);
}

orc::JITTargetMachineBuilder host(const std::vector<std::string>& changed_features) {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    auto builder = take("detect this machine's CPU", orc::JITTargetMachineBuilder::detectHost());
    builder.addFeatures(changed_features);
    // LLVM's JIT linker uses these, too. They are set here so that the assembly we print is that of the code
    // that runs.
    builder.setRelocationModel(llvm::Reloc::PIC_).setCodeModel(llvm::CodeModel::Small);
    // The next level would order instructions once more, which takes as long as everything else and gains
    // nothing.
    builder.setCodeGenOptLevel(llvm::CodeGenOptLevel::Less);
    return builder;
}

std::unique_ptr<llvm::Module> empty_module(llvm::TargetMachine& machine, llvm::LLVMContext& context) {
    auto module = std::make_unique<llvm::Module>("hocket", context);
    module->setTargetTriple(machine.getTargetTriple().str());
    module->setDataLayout(machine.createDataLayout());
    return module;
}

void check(const llvm::Module& module) {
    std::string complaint;
    llvm::raw_string_ostream stream(complaint);
    if (llvm::verifyModule(module, &stream)) fail("compile", "the code is malformed: " + complaint);
}

std::unique_ptr<llvm::Module> build_module(const std::vector<KernelShape>& shapes,
                                           llvm::TargetMachine& machine, llvm::LLVMContext& context) {
    auto module = empty_module(machine, context);
    for (const KernelShape& shape : shapes) build_kernel(shape, machine, *module);
    check(*module);
    return module;
}

std::unique_ptr<llvm::Module> build_formula_module(const FormulaShape& shape, const std::string& name,
                                                   llvm::TargetMachine& machine, llvm::LLVMContext& context) {
    auto module = empty_module(machine, context);
    build_formula(shape, name, machine, *module);
    check(*module);
    return module;
}

// For one thread at a time.
class Compiler {
  public:
    explicit Compiler(const std::vector<std::string>& changed_features = {})
        : builder_(host(changed_features)),
          machine_(take("generate code for this machine's CPU", builder_.createTargetMachine())) {
        const auto one_machine = [this](orc::JITTargetMachineBuilder) {
            return std::make_unique<orc::SimpleCompiler>(*machine_);
        };
        jit_ = take("start LLVM's JIT", orc::LLJITBuilder()
                                            .setJITTargetMachineBuilder(builder_)
                                            .setCompileFunctionCreator(one_machine)
                                            .setPlatformSetUp(orc::setUpInactivePlatform)
                                            .setLinkProcessSymbolsByDefault(false)
                                            .create());
    }

    llvm::TargetMachine& machine() { return *machine_; }

    Code compile(const KernelShape& shape) {
        auto context = std::make_unique<llvm::LLVMContext>();
        auto module = build_module({shape}, *machine_, *context);
        return add(std::move(module), std::move(context), name_of(shape)).toPtr<Code>();
    }

    FormulaCode compile(const FormulaShape& shape, const std::string& name) {
        auto context = std::make_unique<llvm::LLVMContext>();
        auto module = build_formula_module(shape, name, *machine_, *context);
        return add(std::move(module), std::move(context), name).toPtr<FormulaCode>();
    }

  private:
    orc::ExecutorAddr add(std::unique_ptr<llvm::Module> module, std::unique_ptr<llvm::LLVMContext> context,
                          const std::string& name) {
        check("compile", jit_->addIRModule(orc::ThreadSafeModule(std::move(module), std::move(context))));
        return take("find the generated code", jit_->lookup(name));
    }

    orc::JITTargetMachineBuilder builder_;
    std::unique_ptr<llvm::TargetMachine> machine_;
    std::unique_ptr<orc::LLJIT> jit_;
};

// Never destroyed: threads may still be running kernels when the process ends.
struct Process {
    std::mutex compiling;
    std::unique_ptr<Compiler> compiler;
    std::mutex finding;
    std::map<KernelShape, Kernel> kernels;  // a map, so kernels stay at their addresses
    // Guarded by `compiling`.
    std::map<FormulaShape, FormulaCode> formulas;
    std::size_t formula_names = 0;
};

Process& process() {
    static Process& process = *new Process;
    return process;
}

// A copy from one area to another needs no generated code: libc's memcpy is as fast.
void copy_one(std::byte* const* areas, const std::uint32_t* area_ids, std::uint64_t begin,
              std::uint64_t bytes, std::uint64_t, std::uint64_t) {
    std::byte *to = areas[area_ids[0]] + begin, *from = areas[area_ids[1]] + begin;
    if (to != from) std::memcpy(to, from, bytes);
}

}  // namespace

Kernel& find_kernel(const KernelShape& shape) {
    const std::lock_guard lock(process().finding);
    return process().kernels.try_emplace(shape, shape).first->second;
}

FormulaCode find_formula(const FormulaShape& shape) {
    const std::lock_guard lock(process().compiling);
    auto& formulas = process().formulas;
    if (const auto known = formulas.find(shape); known != formulas.end()) return known->second;
    auto& compiler = process().compiler;
    if (!compiler) compiler = std::make_unique<Compiler>();
    const FormulaCode code = compiler->compile(shape, fmt::format("formula_{}", process().formula_names++));
    formulas.emplace(shape, code);
    return code;
}

Code Kernel::compile() {
    const std::lock_guard lock(process().compiling);
    if (const Code known = code_.load(std::memory_order_relaxed)) return known;
    const bool is_plain_copy = shape_.operands == 1 && shape_.destinations == 1 && !shape_.streamed;
    auto& compiler = process().compiler;
    if (!is_plain_copy && !compiler) compiler = std::make_unique<Compiler>();
    const Code code = is_plain_copy ? copy_one : compiler->compile(shape_);
    code_.store(code, std::memory_order_release);
    return code;
}

void with_code_without(const std::string& feature, const KernelShape& shape,
                       const std::function<void(Code)>& action) {
    Compiler compiler({"-" + feature});  // keeps the code
    action(compiler.compile(shape));
}

std::string llvm_ir(const std::vector<KernelShape>& shapes) {
    Compiler compiler;
    llvm::LLVMContext context;
    std::string text;
    llvm::raw_string_ostream stream(text);
    build_module(shapes, compiler.machine(), context)->print(stream, nullptr);
    return text;
}

std::string formula_ir(const FormulaShape& shape) {
    Compiler compiler;
    llvm::LLVMContext context;
    std::string text;
    llvm::raw_string_ostream stream(text);
    build_formula_module(shape, "formula", compiler.machine(), context)->print(stream, nullptr);
    return text;
}

std::string assembly(const std::vector<KernelShape>& shapes) {
    Compiler compiler;
    llvm::LLVMContext context;
    const auto module = build_module(shapes, compiler.machine(), context);
    llvm::SmallString<0> text;
    llvm::raw_svector_ostream stream(text);
    llvm::legacy::PassManager passes;
    if (compiler.machine().addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
        fail("print assembly", "LLVM has none for this machine");
    passes.run(*module);
    return text.str().str();
}

}  // namespace hocket::jit
