#include "runtime/compute/jit/compiler.hpp"

#include <atomic>
#include <new>

#include "runtime/base/forks.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/plugin.hpp"

namespace hocket::jit {
namespace {

constexpr PluginKind kind = {
    .file_name = "libhocket_jit.so",
    .variable = "HOCKET_JIT_LIBRARY",
    .status = Status::io,
    .purpose = "plans cannot be compiled",
    .origin = "Meson builds libhocket_jit.so with Hocket, unless LLVM is disabled (-Djit=disabled)"};

struct Library {
#define HOCKET_DECLARE(name) decltype(&hocket_jit_##name) name;
    HOCKET_JIT_FUNCTIONS(HOCKET_DECLARE)
#undef HOCKET_DECLARE
};

Library load() {
#if !HOCKET_HAVE_JIT
    throw Error(Status::invalid_argument,
                fmt::format("{}: this Hocket was built without LLVM (-Djit=disabled)", kind.purpose));
#endif
    const Plugin plugin = Plugin::load(kind);
    plugin.require_version("hocket_jit_interface_version", interface_version);
    Library library;
#define HOCKET_FIND(name) plugin.find("hocket_jit_" #name, library.name);
    HOCKET_JIT_FUNCTIONS(HOCKET_FIND)
#undef HOCKET_FIND
    return library;
}

// Never destroyed, because threads may still compile when the process exits.
struct Search {
    std::atomic<const Library*> found = nullptr;
    std::atomic<const NoCompiler*> failure = nullptr;
};

Search& search() {
    static Search& search = *new Search;
    return search;
}

const Library& library() {
    if (const Library* const found = search().found.load(std::memory_order_acquire)) return *found;
    // Forbids forks meanwhile: a child would inherit a locked loader and a half-loaded library.
    const auto lock = forks::no_fork();
    if (const Library* const found = search().found.load(std::memory_order_relaxed)) return *found;
    if (const NoCompiler* const failure = search().failure.load(std::memory_order_relaxed)) throw *failure;
    try {
        const Library* const found = new Library(load());
        search().found.store(found, std::memory_order_release);
        return *found;
    } catch (const Error& error) {
        const NoCompiler* const failure = new NoCompiler(error.status(), error.what());
        search().failure.store(failure, std::memory_order_release);
        throw *failure;
    }
}

}  // namespace

bool may_compile() {
    return HOCKET_HAVE_JIT && search().failure.load(std::memory_order_acquire) == nullptr;
}

void require_compiler() {
    library();
}

bool try_to_compile(const std::function<void()>& compile) {
    try {
        compile();
        return true;
    } catch (const NoCompiler& error) {
        static std::atomic<bool> is_told = false;
        if (!is_told.exchange(true))
            log_line("hocket: plans are interpreted, but for those whose kernels came with Hocket: {}",
                     error.what());
        return false;
    }
}

Compiler::Compiler(const std::string& changed_features)
    : generator_(library().create(changed_features.c_str())) {
    if (generator_ == nullptr) throw std::bad_alloc();
}

Compiler::~Compiler() {
    search().found.load(std::memory_order_acquire)->destroy(generator_);  // the constructor has found it
}

void Compiler::check(Status status) const {
    if (status == Status::out_of_memory) throw std::bad_alloc();
    if (status != Status::success) throw Error(status, library().text(generator_));
}

Code Compiler::compile(const KernelShape& shape) {
    Code code = nullptr;
    check(library().compile_kernel(generator_, &shape, &code));
    return code;
}

FormulaCode Compiler::compile(const FormulaShape& shape) {
    FormulaCode code = nullptr;
    check(library().compile_formula(generator_, &shape, &code));
    return code;
}

TwinCode Compiler::compile_twin(const DeviceShape& shape, bool tells_accesses) {
    TwinCode code = nullptr;
    check(library().compile_twin(generator_, &shape, tells_accesses, &code));
    return code;
}

std::string Compiler::ptx(const DeviceShape& shape) {
    check(library().print_ptx(generator_, &shape));
    return library().text(generator_);
}

std::string Compiler::print(const std::vector<KernelShape>& shapes, Language language) {
    check(library().print(generator_, shapes.data(), shapes.size(), language));
    return library().text(generator_);
}

}  // namespace hocket::jit
