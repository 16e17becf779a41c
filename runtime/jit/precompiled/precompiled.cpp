#include "runtime/jit/precompiled/precompiled.hpp"

#include <algorithm>
#include <string>

#include "runtime/jit/precompiled/level.hpp"

namespace hocket::jit {

Code precompiled_code(const KernelShape& shape) {
    static const bool can_run = machine_has_level();
    if (!can_run || precompiled_kernels.empty()) return nullptr;
    const std::string name = name_of(shape);
    const auto found = std::ranges::lower_bound(precompiled_kernels, name, {}, &PrecompiledKernel::name);
    return found != precompiled_kernels.end() && found->name == name ? found->code : nullptr;
}

}  // namespace hocket::jit
