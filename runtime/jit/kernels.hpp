// The kernels of this process: machine code that plans share. Each is compiled when it is first asked for,
// and kept as long as the process lives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
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

// For a machine like this one but without a feature that LLVM calls so, made anew and kept for good: that
// other machines get the same bits can be tested on one.
Code compile_without(const std::string& feature, const KernelShape& shape);

// The kernels' code as text, made anew.
std::string llvm_ir(const std::vector<KernelShape>& shapes);
std::string assembly(const std::vector<KernelShape>& shapes);

}  // namespace hocket::jit
