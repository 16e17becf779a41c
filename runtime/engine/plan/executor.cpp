#include "runtime/engine/plan/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/compiled_program.hpp"
#include "runtime/compute/jit/compiler.hpp"
#include "runtime/compute/kernels/cpu/combine.hpp"
#include "runtime/compute/program/formula_loop.hpp"
#include "runtime/engine/plan/address.hpp"

namespace hocket::engine {
namespace {

class Interpreter final : public Executor {
  public:
    Interpreter(const dsl::RankProgram& program, DataType type, const compute::Reduction& op)
        : program_(program),
          type_(type),
          op_(op),
          divisor_(op.divisor(static_cast<std::uint32_t>(program.ranks))) {}

    std::string_view name() const override { return "interpreter"; }
    void bind(const Layout& layout, std::uint64_t* byte_offsets) const override {
        for (const dsl::Rational& boundary : program_.boundaries)
            *byte_offsets++ = layout.offset(boundary) * element_size(type_);
    }

    void run(dsl::OpId id, std::byte* const* areas, const std::uint64_t* byte_offsets) const override {
        const dsl::Op& op = program_.ops[id];
        const std::uint64_t begin = byte_offsets[op.begin], bytes = byte_offsets[op.end] - begin;
        thread_local std::vector<std::byte*> destinations;
        thread_local std::vector<const std::byte*> operands;
        destinations.assign(1, address(areas[op.area], begin));
        for (const dsl::AreaId area : op.also) destinations.push_back(address(areas[area], begin));
        operands.clear();
        for (const dsl::AreaId area : op.operands) operands.push_back(address(areas[area], begin));
        using Kind = dsl::Op::Kind;
        switch (op.kind) {
            case Kind::copy:
                kernels::copy(destinations, operands[0], bytes);
                break;
            case Kind::combine:
                op_.combine(type_, destinations, operands, bytes / element_size(type_),
                            op.completes ? divisor_ : 1);
                break;
            case Kind::send:
            case Kind::receive:
            case Kind::signal:
            case Kind::await:
            case Kind::compute:
                return;  // others run these
        }
        if (op.epilogue == dsl::Op::no_epilogue) return;
        for (std::byte* const destination : destinations) {
            const compute::FormulaOperand result[] = {{destination, type_}};
            compute::run_formula(program_.computations[op.epilogue].formula, {result, {}, {}},
                                 bytes / element_size(type_), type_, destination);
        }
    }

  private:
    const dsl::RankProgram& program_;
    DataType type_;
    compute::Reduction op_;
    std::uint32_t divisor_;  // complete results are divided by it
};

class Compiled final : public Executor {
  public:
    using Make = decltype(jit::CompiledProgram::compile);

    // Returns null if `make` returns none.
    static std::unique_ptr<Compiled> create(std::string_view name, Make& make,
                                            const dsl::RankProgram& program, DataType type,
                                            const compute::Reduction& op) {
        auto compiled =
            make(program, type, op.built_in(), op.defined() ? op.defined()->formula : dsl::Formula());
        return compiled ? std::make_unique<Compiled>(name, std::move(compiled)) : nullptr;
    }

    Compiled(std::string_view name, std::unique_ptr<jit::CompiledProgram> compiled)
        : name_(name), compiled_(std::move(compiled)) {}

    std::string_view name() const override { return name_; }

    void bind(const Layout& layout, std::uint64_t* byte_offsets) const override {
        compiled_->bind(layout, byte_offsets);
    }
    void run(dsl::OpId op, std::byte* const* areas, const std::uint64_t* byte_offsets) const override {
        compiled_->run(op, areas, byte_offsets);
    }

  private:
    const std::string_view name_;  // a string literal
    std::unique_ptr<jit::CompiledProgram> compiled_;
};

// Begins with the interpreter, so that a first start does not wait for a compiler, and a program that starts
// only a few operations never needs one. Used for programs that need more than the precompiled kernels.
class Tiered final : public Executor {
  public:
    Tiered(const dsl::RankProgram& program, DataType type, const compute::Reduction& op)
        : program_(program), type_(type), op_(op), interpreter_(program, type, op) {
        const auto is_work = [](const dsl::Op& each) { return each.is_elementwise(); };
        interpreted_ = starts_interpreted * std::count_if(program.ops.begin(), program.ops.end(), is_work);
    }

    std::string_view name() const override { return "interpreter, then jit"; }
    void bind(const Layout& layout, std::uint64_t* byte_offsets) const override {
        const Executor* const compiled = compiled_.load(std::memory_order_acquire);
        (compiled ? *compiled : static_cast<const Executor&>(interpreter_)).bind(layout, byte_offsets);
    }
    void run(dsl::OpId op, std::byte* const* areas, const std::uint64_t* byte_offsets) const override {
        const Executor* compiled = compiled_.load(std::memory_order_acquire);
        if (!compiled && interpreted_.fetch_sub(1, std::memory_order_relaxed) == 0) compiled = compile();
        (compiled ? *compiled : static_cast<const Executor&>(interpreter_)).run(op, areas, byte_offsets);
    }

  private:
    static constexpr std::ptrdiff_t starts_interpreted = 3;  // about: a start may have several tiles

    // Only one thread calls this, once. Returns null if nothing can be compiled.
    const Executor* compile() const {
        jit::try_to_compile(
            [&] { jit_ = Compiled::create("jit", jit::CompiledProgram::compile, program_, type_, op_); });
        compiled_.store(jit_.get(), std::memory_order_release);
        return jit_.get();
    }

    const dsl::RankProgram& program_;
    const DataType type_;
    const compute::Reduction op_;
    const Interpreter interpreter_;
    mutable std::atomic<std::ptrdiff_t> interpreted_;  // operations left to interpret
    mutable std::unique_ptr<const Executor> jit_;
    mutable std::atomic<const Executor*> compiled_{nullptr};
};

}  // namespace

std::string_view name_of(ExecutorKind kind) {
    if (kind == ExecutorKind::interpreter) return "interpreter";
    if (kind == ExecutorKind::automatic) return jit::may_compile() ? "jit" : "interpreter";
    try {
        jit::require_compiler();
    } catch (const jit::NoCompiler& error) {
        throw Error(
            error.status(),
            fmt::format("the executor \"jit\" was asked for by name, and {}. Without a name, plans that "
                        "cannot be compiled are interpreted",
                        error.what()));
    }
    return "jit";
}

bool compiles(ExecutorKind kind) {
    return name_of(kind) == "jit";
}

std::unique_ptr<Executor> Executor::create(ExecutorKind kind, const dsl::RankProgram& program, DataType type,
                                           const compute::Reduction& op) {
    if (kind == ExecutorKind::automatic)
        if (auto ready =
                Compiled::create("precompiled", jit::CompiledProgram::of_precompiled, program, type, op))
            return ready;
    if (!compiles(kind)) return std::make_unique<Interpreter>(program, type, op);
    if (kind == ExecutorKind::automatic) return std::make_unique<Tiered>(program, type, op);
    return Compiled::create("jit", jit::CompiledProgram::compile, program, type, op);
}

}  // namespace hocket::engine
