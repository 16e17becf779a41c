// The compiler, which is in a library of its own (runtime/compute/jit/llvm). The library is loaded when a
// process first has something to compile, because LLVM costs more time and memory than the rest of Hocket. It
// is searched as runtime/base/plugin.hpp documents; the variable is HOCKET_JIT_LIBRARY. The search is done
// only once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/interface/generator.hpp"

namespace hocket::jit {

// Thrown if the library cannot be loaded, or is of another version. The text lists the files that were tried,
// and why each was refused.
class NoCompiler : public Error {
  public:
    using Error::Error;
};

// Returns false in a build without LLVM, and once the library could not be loaded. Loads nothing.
// Thread-safe.
bool may_compile();

// Loads the library. Throws NoCompiler. Thread-safe; takes forks::no_fork().
void require_compiler();

// Calls `compile`. Returns false if it throws NoCompiler; this is logged once per process, and the caller
// continues with the interpreter. Thread-safe.
bool try_to_compile(const std::function<void()>& compile);

// Used by one thread at a time. All functions throw NoCompiler, hocket::Error (internal) with LLVM's message,
// or std::bad_alloc.
class Compiler {
  public:
    // Compiles for this machine. changed_features: LLVM's names, "+a,-b".
    explicit Compiler(const std::string& changed_features = "");
    ~Compiler();
    Compiler(const Compiler&) = delete;

    // Each shape may be compiled only once. The code lives as long as this object.
    Code compile(const KernelShape& shape);
    FormulaCode compile(const FormulaShape& shape);
    // A plan for a device, for the processor. tells_accesses: it calls TwinThread::touch.
    TwinCode compile_twin(const DeviceShape& shape, bool tells_accesses = false);

    // Returns the device's code of a plan, without the content of its table of numbers (numbers_name). The
    // same shape always has the same text.
    std::string ptx(const DeviceShape& shape);
    // Returns the kernels as text.
    std::string print(const std::vector<KernelShape>& shapes, Language language);

  private:
    void check(Status status) const;

    Generator* generator_;
};

}  // namespace hocket::jit
