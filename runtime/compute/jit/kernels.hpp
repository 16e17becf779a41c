// The kernels of this process: machine code that plans share. A kernel is compiled with Hocket, or when it is
// first needed, and is kept as long as the process lives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/compute/jit/interface/kernel_shape.hpp"

namespace hocket::jit {

class Kernel {
  public:
    explicit Kernel(const KernelShape& shape, Code code = nullptr) : shape_(shape), code_(code) {}

    const KernelShape& shape() const { return shape_; }

    // Returns the code; compiles it first if necessary. Thread-safe; throws what compiler.hpp does.
    Code code() {
        const Code known = code_.load(std::memory_order_acquire);
        return known ? known : compile();
    }

  private:
    Code compile();

    const KernelShape shape_;
    std::atomic<Code> code_;
};

// Returns the kernel, which is compiled for this machine now or when its code is first requested.
// Thread-safe.
Kernel& find_kernel(const KernelShape& shape);

// Returns the kernel that was compiled with Hocket; null if there is none. Its shape may have a
// divisor_by_call. Thread-safe.
Kernel* find_precompiled_kernel(const KernelShape& shape);

// Calls the action with the kernel's code for a machine like this one but without one feature (LLVM's name
// for it). The code lives only during the call. Tests use this to check on one machine that others get the
// same bits.
void with_code_without(const std::string& feature, const KernelShape& shape,
                       const std::function<void(Code)>& action);

// Return the kernels' code as text, generated for the call.
std::string llvm_ir(const std::vector<KernelShape>& shapes);
std::string assembly(const std::vector<KernelShape>& shapes);

}  // namespace hocket::jit
