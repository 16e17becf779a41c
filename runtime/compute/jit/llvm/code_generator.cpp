#include "runtime/compute/jit/llvm/code_generator.hpp"

#include <fmt/format.h>
#include <llvm/ExecutionEngine/Orc/CompileUtils.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <utility>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/llvm/device_builder.hpp"
#include "runtime/compute/jit/llvm/formula_builder.hpp"
#include "runtime/compute/jit/llvm/kernel_builder.hpp"

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

// LLVM's list of targets may not grow while another thread looks something up there, and each generator may
// be used by another thread. So all targets that are ever used come at once. All that LLVM has would take
// some milliseconds of the first start.
void initialize_targets() {
    [[maybe_unused]] static const bool is_initialized = [] {
        llvm::InitializeNativeTarget();
        llvm::InitializeNativeTargetAsmPrinter();
#if LLVM_HAS_NVPTX_TARGET
        LLVMInitializeNVPTXTargetInfo();
        LLVMInitializeNVPTXTarget();
        LLVMInitializeNVPTXTargetMC();
        LLVMInitializeNVPTXAsmPrinter();
#endif
        return true;
    }();
}

orc::JITTargetMachineBuilder processor(const std::string& changed_features, const std::string& cpu) {
    initialize_targets();
    auto builder = take("detect this machine's CPU", orc::JITTargetMachineBuilder::detectHost());
    if (!cpu.empty()) {
        builder.setCPU(cpu);
        builder.getFeatures() = llvm::SubtargetFeatures();  // the CPU's own
    }
    builder.addFeatures(llvm::SubtargetFeatures(changed_features).getFeatures());
    // LLVM's JIT linker uses these, too. They are set here so that the printed assembly is that of the code
    // that runs.
    builder.setRelocationModel(llvm::Reloc::PIC_).setCodeModel(llvm::CodeModel::Small);
    // The next level would schedule instructions once more, which takes as long as everything else and gains
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

std::unique_ptr<llvm::Module> build_module(std::span<const KernelShape> shapes, llvm::TargetMachine& machine,
                                           llvm::LLVMContext& context) {
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

std::unique_ptr<llvm::Module> build_device_module(const DeviceShape& shape, const DeviceTarget& target,
                                                  llvm::TargetMachine& machine, llvm::LLVMContext& context) {
    auto module = empty_module(machine, context);
    build_device_plan(shape, target, machine, *module);
    check(*module);
    return module;
}

// Products and sums are never fused, numbers never flushed to zero, and quotients and roots rounded exactly:
// the processor's bits.
std::unique_ptr<llvm::TargetMachine> device_machine() {
    initialize_targets();
    constexpr const char *triple = "nvptx64-nvidia-cuda", *oldest = "sm_80", *oldest_ptx = "+ptx70";
    std::string complaint;
    const llvm::Target* const target = llvm::TargetRegistry::lookupTarget(triple, complaint);
    if (target == nullptr)
        throw Error(Status::internal,
                    fmt::format("JIT: cannot generate PTX: this LLVM was built without its target NVPTX "
                                "(Debian's has it): {}",
                                complaint));
    llvm::TargetOptions options;
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    std::unique_ptr<llvm::TargetMachine> machine(
        target->createTargetMachine(triple, oldest, oldest_ptx, options, std::nullopt));
    if (!machine) fail("generate PTX", "LLVM has no code generator for it");
    return machine;
}

// LLVM numbers all calls that a process has printed, in comments. Without them a shape always has the same
// text.
void remove_numbers_of_calls(std::string& text) {
    constexpr const char* comment = " // callseq ";
    for (std::size_t at = text.find(comment); at != std::string::npos; at = text.find(comment, at))
        text.erase(at, text.find('\n', at) - at);
}

}  // namespace

CodeGenerator::CodeGenerator(const std::string& changed_features, const std::string& cpu)
    : builder_(processor(changed_features, cpu)),
      machine_(take("generate code for this machine's CPU", builder_.createTargetMachine())) {
    const auto one_machine = [this](const orc::JITTargetMachineBuilder&) {
        return std::make_unique<orc::SimpleCompiler>(*machine_);
    };
    jit_ = take("start LLVM's JIT", orc::LLJITBuilder()
                                        .setJITTargetMachineBuilder(builder_)
                                        .setCompileFunctionCreator(one_machine)
                                        .setPlatformSetUp(orc::setUpInactivePlatform)
                                        .setLinkProcessSymbolsByDefault(false)
                                        .create());
}

orc::ExecutorAddr CodeGenerator::add(std::unique_ptr<llvm::Module> module,
                                     std::unique_ptr<llvm::LLVMContext> context, const std::string& name) {
    check("compile", jit_->addIRModule(orc::ThreadSafeModule(std::move(module), std::move(context))));
    return take("find the generated code", jit_->lookup(name));
}

Code CodeGenerator::compile(const KernelShape& shape) {
    auto context = std::make_unique<llvm::LLVMContext>();
    auto module = build_module({&shape, 1}, *machine_, *context);
    return add(std::move(module), std::move(context), name_of(shape)).toPtr<Code>();
}

FormulaCode CodeGenerator::compile(const FormulaShape& shape) {
    const std::string name = fmt::format("formula_{}", formulas_++);
    auto context = std::make_unique<llvm::LLVMContext>();
    auto module = build_formula_module(shape, name, *machine_, *context);
    return add(std::move(module), std::move(context), name).toPtr<FormulaCode>();
}

TwinCode CodeGenerator::compile_twin(const DeviceShape& shape, bool tells_accesses) {
    const std::string name = fmt::format("device_twin_{}", twins_++);
    auto context = std::make_unique<llvm::LLVMContext>();
    auto module = build_device_module(shape, *make_twin_target(name, tells_accesses), *machine_, *context);
    return add(std::move(module), std::move(context), name).toPtr<TwinCode>();
}

std::string CodeGenerator::ptx(const DeviceShape& shape) {
    const auto machine = device_machine();
    llvm::LLVMContext context;
    std::string text = emit(*machine, *build_device_module(shape, *make_ptx_target(), *machine, context),
                            llvm::CodeGenFileType::AssemblyFile);
    remove_numbers_of_calls(text);
    return text;
}

std::string CodeGenerator::llvm_ir(std::span<const KernelShape> shapes) {
    llvm::LLVMContext context;
    std::string text;
    llvm::raw_string_ostream stream(text);
    build_module(shapes, *machine_, context)->print(stream, nullptr);
    return text;
}

std::string CodeGenerator::assembly(std::span<const KernelShape> shapes) {
    llvm::LLVMContext context;
    return emit(*machine_, *build_module(shapes, *machine_, context), llvm::CodeGenFileType::AssemblyFile);
}

std::string CodeGenerator::object(std::span<const KernelShape> shapes, const std::string& prefix) {
    llvm::LLVMContext context;
    const auto module = build_module(shapes, *machine_, context);
    for (llvm::Function& function : *module) {
        if (function.isDeclaration()) continue;
        function.setName(prefix + function.getName());
        function.setVisibility(llvm::GlobalValue::HiddenVisibility);
        function.setUWTableKind(llvm::UWTableKind::Async);  // for the stack traces of debuggers and profilers
    }
    return emit(*machine_, *module, llvm::CodeGenFileType::ObjectFile);
}

std::string CodeGenerator::emit(llvm::TargetMachine& machine, llvm::Module& module,
                                llvm::CodeGenFileType type) {
    llvm::SmallString<0> text;
    llvm::raw_svector_ostream stream(text);
    llvm::legacy::PassManager passes;
    if (machine.addPassesToEmitFile(passes, stream, nullptr, type))
        fail("print code", "LLVM has no assembler for this machine");
    passes.run(module);
    return text.str().str();
}

}  // namespace hocket::jit
