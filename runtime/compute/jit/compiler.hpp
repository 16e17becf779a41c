// The compiler, which is in a library of its own (runtime/compute/jit/llvm): it is loaded when a process
// first has something to compile, because LLVM costs more time and memory than all the rest of Hocket. It is
// looked for as runtime/base/plugin.hpp says; the variable is HOCKET_JIT_LIBRARY. Whether there is one is
// found out once.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/interface/generator.hpp"

namespace hocket::jit {

// The library cannot be loaded, or does not fit: the text says which files were tried, and why each was
// refused.
class NoCompiler : public Error {
  public:
    using Error::Error;
};

// False in a build without LLVM, and once the library could not be loaded. Loads nothing. Thread-safe.
bool may_compile();

// Loads the library. Throws NoCompiler. Thread-safe; takes forks::no_fork().
void require_compiler();

// Calls what compiles. False if it throws NoCompiler: then that is logged, once in the process, and the
// caller goes on with the interpreter. Thread-safe.
bool try_to_compile(const std::function<void()>& compile);

// For one thread at a time. All functions throw NoCompiler, hocket::Error (internal) with LLVM's words, or
// std::bad_alloc.
class Compiler {
  public:
    // For this machine. changed_features: LLVM's names, "+a,-b".
    explicit Compiler(const std::string& changed_features = "");
    ~Compiler();
    Compiler(const Compiler&) = delete;

    // Each shape only once. The code lives as long as this.
    Code compile(const KernelShape& shape);
    FormulaCode compile(const FormulaShape& shape);

    // The kernels as text.
    std::string print(const std::vector<KernelShape>& shapes, Language language);

  private:
    void check(Status status) const;

    Generator* generator_;
};

}  // namespace hocket::jit
