#include "runtime/device/kernels/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "runtime/error.hpp"
#include "runtime/installed.hpp"

namespace hocket::device {
namespace {

constexpr const char* file_name = "libhocket_cuda.so";

[[noreturn]] void refuse(const std::string& why) {
    throw Error(
        Status::device,
        fmt::format("the kernels of CUDA devices are needed for memory of one, and cannot "
                    "be loaded: {}. Meson builds {} where it finds nvcc, and installs it with Hocket; "
                    "HOCKET_CUDA_KERNELS, if set, must be the path of it",
                    why, file_name));
}

std::string why_not() {
    const char* why = dlerror();
    return why == nullptr ? "unknown reason" : why;
}

template <typename Function>
void find(void* handle, const std::string& path, const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle, symbol));
    if (function == nullptr)
        refuse(fmt::format("{} has no {}: it is of another version of Hocket", path, symbol));
}

KernelLibrary functions_of(void* handle, const std::string& path) {
    decltype(&kernels::cuda::hocket_cuda_interface_version) version = nullptr;
    find(handle, path, "hocket_cuda_interface_version", version);
    if (version() != kernels::cuda::interface_version)
        refuse(
            fmt::format("{} has version {} of its interface, and version {} is needed: it is of another "
                        "version of Hocket",
                        path, version(), kernels::cuda::interface_version));
    KernelLibrary library;
    library.path = path;
#define HOCKET_FIND(name) find(handle, path, "hocket_cuda_" #name, library.name);
    HOCKET_CUDA_KERNELS(HOCKET_FIND)
#undef HOCKET_FIND
    return library;
}

KernelLibrary load() {
    const auto open = [](const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); };
    const char* const chosen = std::getenv("HOCKET_CUDA_KERNELS");
    if (chosen != nullptr && *chosen != '\0') {
        if (void* handle = open(chosen)) return functions_of(handle, chosen);
        refuse(fmt::format("HOCKET_CUDA_KERNELS is {}: {}", chosen, why_not()));
    }
    std::string reasons;
    for (const auto& [what, path] : plugin_places(file_name)) {
        if (void* handle = open(path)) return functions_of(handle, path);
        reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", what, why_not());
    }
    refuse(reasons);
}

}  // namespace

const KernelLibrary& kernel_library() {
    static std::atomic<const KernelLibrary*> known{nullptr};
    static std::mutex loading;
    if (const KernelLibrary* library = known.load(std::memory_order_acquire)) return *library;
    const std::lock_guard lock(loading);
    if (const KernelLibrary* library = known.load(std::memory_order_acquire)) return *library;
    static KernelLibrary loaded;  // never moves, and is written once
    loaded = load();
    known.store(&loaded, std::memory_order_release);
    return loaded;
}

}  // namespace hocket::device
