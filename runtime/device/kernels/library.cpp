#include "runtime/device/kernels/library.hpp"

#include <atomic>
#include <mutex>

#include "runtime/base/plugin.hpp"

namespace hocket::device {
namespace {

constexpr PluginKind kind = {
    .file_name = "libhocket_cuda.so",
    .variable = "HOCKET_CUDA_KERNELS",
    .status = Status::device,
    .purpose = "the kernels of CUDA devices are needed for memory of one, and cannot be loaded",
    .origin = "Meson builds libhocket_cuda.so with Hocket where it finds nvcc"};

KernelLibrary load_kernels() {
    const Plugin plugin = Plugin::load(kind);
    plugin.require_version("hocket_cuda_interface_version", kernels::cuda::interface_version);
    KernelLibrary library;
    library.path = plugin.path();
#define HOCKET_FIND(name) plugin.find("hocket_cuda_" #name, library.name);
    HOCKET_CUDA_KERNELS(HOCKET_FIND)
#undef HOCKET_FIND
    return library;
}

}  // namespace

const KernelLibrary& kernel_library() {
    static std::atomic<const KernelLibrary*> known{nullptr};
    static std::mutex loading;
    if (const KernelLibrary* library = known.load(std::memory_order_acquire)) return *library;
    const std::lock_guard lock(loading);
    if (const KernelLibrary* library = known.load(std::memory_order_acquire)) return *library;
    static KernelLibrary loaded;  // never moves; written once
    loaded = load_kernels();
    known.store(&loaded, std::memory_order_release);
    return loaded;
}

}  // namespace hocket::device
