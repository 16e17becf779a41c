// The kernels of this process: machine code that plans share. Each is compiled when it is first needed, and
// kept as long as the process lives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/jit/kernel_shape.hpp"

namespace hocket::jit {

// areas are the virtual bases. area_ids are those of the destinations, then those of the operands. begin and
// bytes say where in the areas. All arguments fit into registers. A kernel for certain numbers of operands
// and destinations ignores the last two.
using Code = void (*)(std::byte* const* areas, const std::uint32_t* area_ids, std::uint64_t begin,
                      std::uint64_t bytes, std::uint64_t operands, std::uint64_t destinations);

// Kernels that stream take multiples of this: whole blocks of any kernel.
inline constexpr std::uint64_t streamed_unit = 4096;

class Kernel {
  public:
    explicit Kernel(const KernelShape& shape) : shape_(shape) {}

    // Thread-safe; throws hocket::Error(internal) with LLVM's words.
    Code code() {
        const Code known = code_.load(std::memory_order_acquire);
        return known ? known : compile();
    }

  private:
    Code compile();

    const KernelShape shape_;
    std::atomic<Code> code_ = nullptr;
};

// The kernel may not be compiled yet. Thread-safe.
Kernel& find_kernel(const KernelShape& shape);

// Calls the action with the kernel's code for a machine like this one but without one feature (LLVM's name
// for it). The code lives only during the call. So tests on one machine can check that others get the same
// bits.
void with_code_without(const std::string& feature, const KernelShape& shape,
                       const std::function<void(Code)>& action);

// The kernels' code as text, generated for the call.
std::string llvm_ir(const std::vector<KernelShape>& shapes);
std::string assembly(const std::vector<KernelShape>& shapes);

}  // namespace hocket::jit
