// The library's side of the interface. No exception leaves it.
#include "runtime/compute/jit/interface/generator.hpp"

#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>

#include "runtime/compute/jit/llvm/code_generator.hpp"

namespace hocket::jit {

struct Generator {
    const std::string changed_features;
    std::string text = "";
    std::optional<CodeGenerator> code = std::nullopt;  // created by the first call that needs it
};

namespace {

// Calls the action and keeps the text that it returns.
template <typename Action>
Status guarded(Generator& generator, const Action& action) noexcept {
    try {
        try {
            if (!generator.code) generator.code.emplace(generator.changed_features);
            generator.text = action(*generator.code);
            return Status::success;
        } catch (const std::bad_alloc&) {
            throw;
        } catch (const Error& error) {
            generator.text = error.what();
            return error.status();
        } catch (const std::exception& error) {
            generator.text = error.what();
            return Status::internal;
        }
    } catch (...) {
        return Status::out_of_memory;
    }
}

}  // namespace

const char* hocket_jit_interface_version() noexcept {
    return interface_version;
}

Generator* hocket_jit_create(const char* changed_features) noexcept {
    try {
        return new Generator{changed_features};
    } catch (...) {
        return nullptr;
    }
}

void hocket_jit_destroy(Generator* generator) noexcept {
    delete generator;
}

Status hocket_jit_compile_kernel(Generator* generator, const KernelShape* shape, Code* code) noexcept {
    return guarded(*generator, [&](CodeGenerator& own) {
        *code = own.compile(*shape);
        return "";
    });
}

Status hocket_jit_compile_formula(Generator* generator, const FormulaShape* shape,
                                  FormulaCode* code) noexcept {
    return guarded(*generator, [&](CodeGenerator& own) {
        *code = own.compile(*shape);
        return "";
    });
}

Status hocket_jit_compile_twin(Generator* generator, const DeviceShape* shape, bool tells_accesses,
                               TwinCode* code) noexcept {
    return guarded(*generator, [&](CodeGenerator& own) {
        *code = own.compile_twin(*shape, tells_accesses);
        return "";
    });
}

Status hocket_jit_print_ptx(Generator* generator, const DeviceShape* shape) noexcept {
    return guarded(*generator, [&](CodeGenerator& own) { return own.ptx(*shape); });
}

Status hocket_jit_print(Generator* generator, const KernelShape* shapes, std::size_t count,
                        Language language) noexcept {
    return guarded(*generator, [&](CodeGenerator& own) {
        const std::span all(shapes, count);
        return language == Language::llvm_ir ? own.llvm_ir(all) : own.assembly(all);
    });
}

const char* hocket_jit_text(const Generator* generator) noexcept {
    return generator->text.c_str();
}

}  // namespace hocket::jit
