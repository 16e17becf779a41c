#include "runtime/compute/jit/kernels.hpp"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "runtime/base/forks.hpp"
#include "runtime/compute/jit/compiler.hpp"
#include "runtime/compute/jit/formula_kernel.hpp"
#include "runtime/compute/jit/precompiled/precompiled.hpp"

namespace hocket::jit {
namespace {

// Never destroyed, because threads may still be running kernels when the process exits. Guarded by
// forks::no_fork(), because a child forked while a thread compiles would find any other lock taken, and a
// kernel half compiled.
struct Process {
    std::unique_ptr<Compiler> compiler;
    std::map<KernelShape, Kernel> kernels;  // a map, because kernels must keep their addresses
    std::map<KernelShape, Kernel> precompiled_kernels;
    std::map<FormulaShape, FormulaCode> formulas;
};

Process& process() {
    static Process& process = *new Process;
    return process;
}

// Returns a lock to hold while compiling: only one thread compiles at a time, and no fork happens meanwhile.
std::unique_lock<std::mutex> compiling() {
    require_compiler();  // takes the same lock
    return forks::no_fork();
}

Compiler& compiler() {
    auto& compiler = process().compiler;
    if (!compiler) compiler = std::make_unique<Compiler>();
    return *compiler;
}

bool is_one_copy(const KernelShape& shape) {
    return shape.is_copy() && shape.destinations == 1;
}

// A copy from one area to another needs no generated code, because libc's memcpy is as fast.
void copy_one(std::byte* const* areas, const std::uint32_t* area_ids, std::uint64_t begin,
              std::uint64_t bytes, std::uint64_t, std::uint64_t) {
    std::byte *to = areas[area_ids[0]] + begin, *from = areas[area_ids[1]] + begin;
    if (to != from) std::memcpy(to, from, bytes);
}

}  // namespace

Kernel& find_kernel(const KernelShape& shape) {
    const auto lock = forks::no_fork();
    return process().kernels.try_emplace(shape, shape).first->second;
}

Kernel* find_precompiled_kernel(const KernelShape& shape) {
    if (!has_precompiled_code()) return nullptr;  // copies included, because streaming ones would be missing
    KernelShape general = shape;
    if (shape.divisor > 1 && row_of(shape.type).kind == kind::floating)
        general.divisor = KernelShape::divisor_by_call;
    const Code code = is_one_copy(shape) && !shape.streamed ? copy_one : precompiled_code(general);
    if (code == nullptr) return nullptr;
    const auto lock = forks::no_fork();
    return &process().precompiled_kernels.try_emplace(general, general, code).first->second;
}

FormulaCode find_formula(const FormulaShape& shape) {
    const auto lock = compiling();
    auto& formulas = process().formulas;
    if (const auto known = formulas.find(shape); known != formulas.end()) return known->second;
    return formulas.emplace(shape, compiler().compile(shape)).first->second;
}

Code Kernel::compile() {
    // If nothing can be compiled, libc also does the copies that should be streamed.
    if (is_one_copy(shape_) && (!shape_.streamed || !try_to_compile(require_compiler))) {
        code_.store(copy_one, std::memory_order_release);
        return copy_one;
    }
    const auto lock = compiling();
    if (const Code known = code_.load(std::memory_order_relaxed)) return known;
    const Code code = compiler().compile(shape_);
    code_.store(code, std::memory_order_release);
    return code;
}

void with_code_without(const std::string& feature, const KernelShape& shape,
                       const std::function<void(Code)>& action) {
    Compiler compiler("-" + feature);  // owns the code
    action(compiler.compile(shape));
}

std::string llvm_ir(const std::vector<KernelShape>& shapes) {
    return Compiler().print(shapes, Language::llvm_ir);
}

std::string assembly(const std::vector<KernelShape>& shapes) {
    return Compiler().print(shapes, Language::assembly);
}

}  // namespace hocket::jit
