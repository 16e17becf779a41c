#include "runtime/device/kernels/library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <stdexcept>

#include "runtime/error.hpp"
#include "runtime/plugin.hpp"

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
    try {
        const Plugin plugin = open_plugin(file_name, "HOCKET_CUDA_KERNELS");
        return functions_of(plugin.handle, plugin.path);
    } catch (const Error&) {  // it was loaded, and does not fit
        throw;
    } catch (const std::runtime_error& error) {
        refuse(error.what());
    }
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
