#include "tools/bench/memory.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

#include "tools/bench/comm.hpp"

namespace hocket::bench {

const char* name_of(MemoryKind kind) {
    constexpr const char* names[] = {"shared", "private", "device"};
    return names[static_cast<std::size_t>(kind)];
}

Memory private_memory(std::size_t bytes) {
    constexpr std::align_val_t page{4096};
    return {{::operator new(bytes, page), [](void* memory) { ::operator delete(memory, page); }}};
}

Allocate shared_memory(hkt_comm* comm) {
    return [comm](std::size_t bytes) -> Memory {
        void* memory = nullptr;
        check(hkt_mem_alloc(comm, bytes, &memory), comm, "no memory");
        return {{memory, [comm](void* given) { hkt_mem_free(comm, given); }}};
    };
}

// The driver's functions, looked up by name in libcuda.so.1, whose interface is stable; so CUDA's headers are
// not needed.
struct Device::Driver {
    Driver();

    template <typename... Args>
    void call(const char* name, Args... args) const {
        using Function = int (*)(Args...);
        const auto function = reinterpret_cast<Function>(dlsym(library, name));
        if (function == nullptr) throw std::runtime_error(fmt::format("{} has no {}", path, name));
        if (const int result = function(args...); result != 0)
            throw std::runtime_error(fmt::format("{} failed: {}", name, words(result)));
    }

    std::string words(int result) const {
        using Words = int (*)(int, const char**);
        const auto error_name = reinterpret_cast<Words>(dlsym(library, "cuGetErrorName"));
        const char* text = nullptr;
        if (error_name != nullptr) error_name(result, &text);
        return text != nullptr ? text : fmt::format("CUDA's error {}", result);
    }

    std::string path;
    void* library = nullptr;  // stays loaded, because the communicator uses it, too
    int ordinal = 0;
};

namespace {

// Returns the rank on the host as launchers give it: hocket-run and torchrun, Open MPI, MPICH, Slurm.
int rank_on_host() {
    for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
        if (const char* rank = std::getenv(name)) return std::atoi(rank);
    return 0;
}

}  // namespace

Device::Driver::Driver() {
    const char* named = std::getenv("HOCKET_CUDA_DRIVER");
    path = named != nullptr ? named : "libcuda.so.1";
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr)
        throw std::runtime_error(
            fmt::format("--memory device: there is no CUDA driver here ({})", dlerror()));
    call("cuInit", 0u);
    int devices = 0;
    call("cuDeviceGetCount", &devices);
    if (devices == 0) throw std::runtime_error("--memory device: the CUDA driver knows of no device");
    ordinal = rank_on_host() % devices;
    void* context = nullptr;
    call("cuDevicePrimaryCtxRetain", &context, ordinal);
    call("cuCtxSetCurrent", context);
}

Device::Device() : driver_(std::make_unique<Driver>()) {}

Device::~Device() {
    try {
        driver_->call("cuDevicePrimaryCtxRelease_v2", driver_->ordinal);
    } catch (const std::runtime_error&) {  // the process ends anyway
    }
}

Allocate Device::memory() const {
    return [driver = driver_.get()](std::size_t bytes) -> Memory {
        using Address = unsigned long long;
        Address address = 0;
        driver->call("cuMemAlloc_v2", &address, bytes);
        Memory memory = private_memory(bytes);
        memory.device = {reinterpret_cast<void*>(address), [driver, address](void*) {
                             try {
                                 driver->call("cuMemFree_v2", address);
                             } catch (const std::runtime_error&) {  // an earlier error says more
                             }
                         }};
        memory.upload = [driver, address, bytes, host = memory.host.get()] {
            driver->call("cuMemcpyHtoD_v2", address, static_cast<const void*>(host), bytes);
        };
        memory.download = [driver, address, bytes, host = memory.host.get()] {
            driver->call("cuStreamSynchronize", static_cast<void*>(nullptr));
            driver->call("cuMemcpyDtoH_v2", host, address, bytes);
        };
        return memory;
    };
}

void Device::synchronize() const {
    driver_->call("cuStreamSynchronize", static_cast<void*>(nullptr));
}

}  // namespace hocket::bench
