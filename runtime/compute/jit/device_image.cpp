#include "runtime/compute/jit/device_image.hpp"

#include <fmt/format.h>

#include <cstdint>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/compiler.hpp"

namespace hocket::jit {

DeviceImage device_image(const DeviceShape& shape, int capability, const CodeCache& cache) {
    if (capability != 0 && capability < least_capability)
        throw Error(
            Status::invalid_argument,
            fmt::format("the device has compute capability {}.{}, and kernels of plans need {}.{}",
                        capability / 10, capability % 10, least_capability / 10, least_capability % 10));
    if (capability > 0) {
        const std::string key = key_of(shape);
        if (auto known = cache.find(key)) return {std::move(*known), nullptr};
        std::string text = Compiler().ptx(shape);
        cache.keep(key, text);
        return {std::move(text), nullptr};
    }
    const auto compiler = std::make_shared<Compiler>();
    const auto address = reinterpret_cast<std::uintptr_t>(compiler->compile_twin(shape));
    return {fmt::format("{}{:x}", twin_image, address), compiler};
}

}  // namespace hocket::jit
