#include "runtime/compute/jit/interface/device_plan.hpp"

namespace hocket::jit {

std::vector<std::uint64_t> stretches_of(const std::vector<std::uint64_t>& boundaries, std::uint64_t stripes) {
    constexpr std::uint64_t unit = 16;  // the widest access
    std::vector<std::uint64_t> stretches;
    for (std::size_t i = 1; i < boundaries.size(); ++i) {
        const std::uint64_t bytes = boundaries[i] - boundaries[i - 1];
        stretches.push_back(((bytes + stripes - 1) / stripes + unit - 1) / unit * unit);
    }
    return stretches;
}

}  // namespace hocket::jit
