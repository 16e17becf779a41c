// The kernels of this process: machine code that plans share. Each is compiled when it is first asked for,
// and kept as long as the process lives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/jit/kernel_shape.hpp"

namespace hocket::jit {

// areas are the virtual bases; area_ids are the destinations' and then the operands'; begin and bytes tell
// where in the areas. All of it fits into registers. A kernel for certain numbers of operands and
// destinations does not look at the last two.
using Code = void (*)(std::byte* const* areas, const std::uint32_t* area_ids, std::uint64_t begin,
                      std::uint64_t bytes, std::uint64_t operands, std::uint64_t destinations);

// What streams takes multiples of this: whole blocks of any kernel.
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

// Not yet compiled where this is the first to ask. Thread-safe.
Kernel& find_kernel(const KernelShape& shape);

// Calls the action with the kernel's code for a machine like this one but without a feature (LLVM's name of
// it). The code lives as long as the call. So one machine can test that other machines get the same bits.
void with_code_without(const std::string& feature, const KernelShape& shape,
                       const std::function<void(Code)>& action);

// The kernels' code as text, made anew.
std::string llvm_ir(const std::vector<KernelShape>& shapes);
std::string assembly(const std::vector<KernelShape>& shapes);

}  // namespace hocket::jit
