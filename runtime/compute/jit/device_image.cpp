#include "runtime/compute/jit/device_image.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/base/error.hpp"
#include "runtime/compute/jit/compiler.hpp"

namespace hocket::jit {
namespace {

// Puts the numbers into the line of their table.
std::string with_numbers(std::string code, const std::vector<std::uint32_t>& numbers) {
    const std::size_t name = code.find(fmt::format("{}[", numbers_name));
    if (name == std::string::npos)
        throw Error(Status::internal, "JIT: a kernel has no table of numbers; please report it");
    const std::size_t begin = code.rfind('\n', name) + 1, end = code.find('\n', name);
    return code.replace(begin, end - begin,
                        fmt::format(".global .align 4 .u32 {}[{}] = {{{}}};", numbers_name, numbers.size(),
                                    fmt::join(numbers, ", ")));
}

std::string compile_code(const DeviceShape& shape) {
    try {
        return Compiler().ptx(shape);
    } catch (const NoCompiler& error) {
        throw NoCompiler(
            error.status(),
            fmt::format("the code of this kernel did not come with Hocket, and {}", error.what()));
    }
}

// shape: without numbers.
std::string find_or_compile(const DeviceShape& shape, const CodeCache& cache,
                            const CodeCollection& ready_made) {
    const std::string key = key_of(shape);
    if (auto kept = cache.find(key)) return std::move(*kept);
    if (auto came = ready_made.find(key)) return std::move(*came);
    std::string code = compile_code(shape);
    cache.keep(key, code);
    return code;
}

}  // namespace

std::string ptx_of(const DeviceShape& shape) {
    return with_numbers(compile_code(without_numbers(shape)), numbers_of(shape));
}

DeviceImage device_image(const DeviceShape& shape, int capability, const CodeCache& cache,
                         const CodeCollection& ready_made) {
    if (capability != 0 && capability < least_capability)
        throw Error(
            Status::invalid_argument,
            fmt::format("the device has compute capability {}.{}, and kernels of plans need {}.{}",
                        capability / 10, capability % 10, least_capability / 10, least_capability % 10));
    if (capability > 0)
        return {with_numbers(find_or_compile(without_numbers(shape), cache, ready_made), numbers_of(shape)),
                nullptr};
    const auto compiler = std::make_shared<Compiler>();
    const auto address = reinterpret_cast<std::uintptr_t>(compiler->compile_twin(shape));
    return {fmt::format("{}{:x}", twin_image, address), compiler};
}

}  // namespace hocket::jit
