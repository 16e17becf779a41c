#include "runtime/engine/start/input_copy.hpp"

#include <cstring>

#include "runtime/compute/kernels/cpu/multiply.hpp"

namespace hocket::engine {

void copy_input(const Plan& plan, double factor, std::byte* to, const std::byte* from, std::uint64_t bytes,
                ReadBy reader, kernels::Path path) {
    if (plan.multiplies()) return kernels::multiply(plan.type(), to, from, bytes / plan.element(), factor);
    if (reader == ReadBy::local_peers) return kernels::hand_over(to, from, bytes, path);
    std::memcpy(to, from, bytes);
}

}  // namespace hocket::engine
