#include "runtime/jit/compiled_program.hpp"

#include <fmt/format.h>
#include <llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <cstring>
#include <mutex>
#include <utility>

#include "runtime/error.hpp"
#include "runtime/jit/module_builder.hpp"
#include "runtime/jit/streaming.hpp"

namespace hocket::jit {
namespace {

namespace orc = llvm::orc;

[[noreturn]] void fail(const char* what, llvm::Error error) {
    throw Error(Status::internal,
                fmt::format("JIT: cannot {}: {}; HOCKET_EXECUTOR=interpreter runs plans without it", what,
                            llvm::toString(std::move(error))));
}

void check(const char* what, llvm::Error error) {
    if (error) fail(what, std::move(error));
}

template <typename T>
T take(const char* what, llvm::Expected<T> value) {
    if (!value) fail(what, value.takeError());
    return std::move(*value);
}

orc::JITTargetMachineBuilder host() {
    static std::once_flag once;
    std::call_once(once, [] {
        llvm::InitializeNativeTarget();
        llvm::InitializeNativeTargetAsmPrinter();
    });
    auto builder = take("detect this machine's CPU", orc::JITTargetMachineBuilder::detectHost());
    // What LLVM's JIT linker takes; said here so that the assembly printed is that of the code that runs.
    builder.setRelocationModel(llvm::Reloc::PIC_).setCodeModel(llvm::CodeModel::Small);
    return builder;
}

std::unique_ptr<llvm::TargetMachine> machine_for(orc::JITTargetMachineBuilder& builder) {
    return take("generate code for this machine's CPU", builder.createTargetMachine());
}

// Checked here, so that a defect elsewhere is a message and not a wild pointer in generated code.
void check_program(const dsl::RankProgram& program) {
    for (const dsl::Rational& boundary : program.boundaries)
        if (boundary < dsl::Rational(0) || boundary > dsl::Rational(1))
            throw Error(Status::internal,
                        fmt::format("JIT: boundary {} of {} for rank {} lies outside of 0 .. 1; "
                                    "please report it with the schedule",
                                    boundary.text(), program.schedule, program.rank));
    const std::size_t areas = program.areas();
    for (std::size_t id = 0; id < program.ops.size(); ++id) {
        const dsl::Op& op = program.ops[id];
        const bool combine = op.kind == dsl::Op::Kind::combine, copy = op.kind == dsl::Op::Kind::copy;
        bool valid = op.begin < program.boundaries.size() && op.end < program.boundaries.size() &&
                     op.area < areas && (!combine || op.operands.size() >= 2) &&
                     (!copy || op.operands.size() == 1);
        for (const auto* list : {&op.operands, &op.also})
            for (const dsl::AreaId area : *list) valid = valid && area < areas;
        if (!valid)
            throw Error(
                Status::internal,
                fmt::format("JIT: operation {} of {} for rank {} is malformed (kind {}, {} operands); "
                            "please report it with the schedule",
                            id, program.schedule, program.rank, static_cast<int>(op.kind),
                            op.operands.size()));
    }
}

class OrcProgram final : public CompiledProgram {
  public:
    explicit OrcProgram(CodeSource source) : source_(std::move(source)) {
        auto builder = host();
        auto context = std::make_unique<llvm::LLVMContext>();
        auto module = build_module(source_, *machine_for(builder), *context);
        jit_ = take("start LLVM's JIT", orc::LLJITBuilder()
                                            .setJITTargetMachineBuilder(std::move(builder))
                                            .setPlatformSetUp(orc::setUpInactivePlatform)
                                            .setLinkProcessSymbolsByDefault(false)
                                            .create());
        define_symbols();
        check("compile", jit_->addIRModule(orc::ThreadSafeModule(std::move(module), std::move(context))));
        bind_ = take("find the generated code", jit_->lookup(bind_symbol)).toPtr<Bind>();
        steps_ = take("find the generated code", jit_->lookup(steps_symbol)).toPtr<const Step*>();
    }

    void bind(std::uint64_t count, std::uint64_t* byte_offsets) const override { bind_(count, byte_offsets); }

    void run(dsl::OpId op, std::byte* const* areas, const std::uint64_t* byte_offsets) const override {
        if (op >= source_.ops.size() || !steps_[op])
            throw Error(
                Status::internal,
                fmt::format("JIT: operation {} is not a combine or copy of the program; please report it",
                            op));
        steps_[op](areas, byte_offsets);
    }

    std::string llvm_ir() const override {
        auto builder = host();
        llvm::LLVMContext context;
        std::string text;
        llvm::raw_string_ostream stream(text);
        build_module(source_, *machine_for(builder), context)->print(stream, nullptr);
        return text;
    }

    std::string assembly() const override {
        auto builder = host();
        llvm::LLVMContext context;
        const auto machine = machine_for(builder);
        const auto module = build_module(source_, *machine, context);
        llvm::SmallString<0> text;
        llvm::raw_svector_ostream stream(text);
        llvm::legacy::PassManager passes;
        if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
            throw Error(Status::internal, "JIT: LLVM cannot print assembly for this machine");
        passes.run(*module);
        return text.str().str();
    }

  private:
    // The only names that generated code can reach.
    void define_symbols() {
        const auto symbol = [](auto* function) {
            return orc::ExecutorSymbolDef(orc::ExecutorAddr::fromPtr(function),
                                          llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable);
        };
        using Copy = void* (*)(void*, const void*, std::size_t);
        check("define symbols", jit_->getMainJITDylib().define(orc::absoluteSymbols({
                                    {jit_->mangleAndIntern("memcpy"), symbol(static_cast<Copy>(std::memcpy))},
                                    {jit_->mangleAndIntern(wide_offset_symbol), symbol(&wide_offset)},
                                    {jit_->mangleAndIntern(streaming_head_symbol), symbol(&streaming_head)},
                                })));
    }

    const CodeSource source_;  // to print the code again
    std::unique_ptr<orc::LLJIT> jit_;
    Bind bind_ = nullptr;
    const Step* steps_ = nullptr;
};

}  // namespace

std::unique_ptr<CompiledProgram> CompiledProgram::compile(const dsl::RankProgram& program, DataType type,
                                                          ReduceOp op) {
    check_program(program);
    return std::make_unique<OrcProgram>(CodeSource{program.boundaries, program.ops, type, op});
}

}  // namespace hocket::jit
