#include "runtime/compute/jit/precompiled/precompiled.hpp"

#include <algorithm>
#include <string>

#include "runtime/compute/jit/precompiled/level.hpp"

namespace hocket::jit {

bool has_precompiled_code() {
    return !precompiled_kernels.empty() && machine_has_level();
}

Code precompiled_code(const KernelShape& shape) {
    if (!has_precompiled_code()) return nullptr;
    const std::string name = name_of(shape);
    const auto found = std::ranges::lower_bound(precompiled_kernels, name, {}, &PrecompiledKernel::name);
    return found != precompiled_kernels.end() && found->name == name ? found->code : nullptr;
}

}  // namespace hocket::jit
