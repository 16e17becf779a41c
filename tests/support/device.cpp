#include "tests/support/device.hpp"

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace hocket::test {

void must(int cuda_result, const char* what) {
    if (cuda_result != 0)
        throw std::runtime_error(std::string(what) + " gave CUDA's result " + std::to_string(cuda_result));
}

std::string Cuda::path() {
    const char* real = std::getenv("HOCKET_TEST_CUDA_DRIVER");
    return real != nullptr ? real : HOCKET_FAKE_CUDA;
}

bool Cuda::is_fake() {
    return std::getenv("HOCKET_TEST_CUDA_DRIVER") == nullptr;
}

const Cuda& Cuda::load() {
    static const Cuda cuda = [] {
        setenv("HOCKET_CUDA_DRIVER", path().c_str(), 1);
        void* handle = dlopen(path().c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) throw std::runtime_error(dlerror());
        Cuda found{};
        const auto find = [&](auto& function, const char* name, bool is_needed = true) {
            void* symbol = dlsym(handle, name);
            if (symbol == nullptr && is_needed) throw std::runtime_error(std::string("no ") + name);
            std::memcpy(&function, &symbol, sizeof symbol);
        };
        find(found.init, "cuInit");
        find(found.device_get_count, "cuDeviceGetCount");
        find(found.primary_context_retain, "cuDevicePrimaryCtxRetain");
        find(found.context_set_current, "cuCtxSetCurrent");
        find(found.context_get_device, "cuCtxGetDevice");
        find(found.context_create, "cuCtxCreate_v2");
        find(found.allocate, "cuMemAlloc_v2");
        find(found.release, "cuMemFree_v2");
        find(found.host_allocate, "cuMemHostAlloc");
        find(found.host_release, "cuMemFreeHost");
        find(found.read, "cuMemcpyDtoH_v2");
        find(found.write, "cuMemcpyHtoD_v2");
        find(found.read_async, "cuMemcpyDtoHAsync_v2");
        find(found.write_async, "cuMemcpyHtoDAsync_v2");
        find(found.stream_create, "cuStreamCreate");
        find(found.stream_destroy, "cuStreamDestroy_v2");
        find(found.stream_synchronize, "cuStreamSynchronize");
        find(found.launch_host_function, "cuLaunchHostFunc");
        find(found.begin_capture, "cuStreamBeginCapture_v2");
        find(found.end_capture, "cuStreamEndCapture");
        find(found.graph_instantiate, "cuGraphInstantiateWithFlags");
        find(found.graph_launch, "cuGraphLaunch");
        find(found.graph_destroy, "cuGraphDestroy");
        find(found.executable_destroy, "cuGraphExecDestroy");
        find(found.fail, "fake_cuda_fail", false);
        find(found.count, "fake_cuda_count", false);
        find(found.capture, "fake_cuda_capture", false);
        find(found.hold_copies, "fake_cuda_hold_copies", false);
        find(found.hold_kernels, "fake_cuda_hold_kernels", false);
        find(found.replay, "fake_cuda_replay", false);
        must(found.init(0), "cuInit");
        return found;
    }();
    cuda.use_device(0);
    return cuda;
}

int Cuda::devices() const {
    int count = 0;
    must(device_get_count(&count), "cuDeviceGetCount");
    return count;
}

// The context is retained for the life of the process.
void Cuda::use_device(int ordinal) const {
    static void* contexts[64] = {};
    void*& context = contexts[ordinal];
    if (context == nullptr) must(primary_context_retain(&context, ordinal), "cuDevicePrimaryCtxRetain");
    must(context_set_current(context), "cuCtxSetCurrent");
}

DeviceMemory::DeviceMemory(const Cuda& cuda, std::size_t bytes) : cuda_(cuda), bytes_(bytes) {
    must(cuda.allocate(&address_, bytes + 2 * guard), "cuMemAlloc");
    write_at(address_, std::vector<std::byte>(bytes + 2 * guard, std::byte{0x5a}));
}

DeviceMemory::~DeviceMemory() {
    cuda_.release(address_);
}

void DeviceMemory::write(const std::vector<std::byte>& contents, std::size_t at) const {
    if (!contents.empty()) write_at(address_ + guard + at, contents);
}

// Such a copy may still be under way when the call returns, and streams of DeviceStream do not wait for it.
void DeviceMemory::write_at(unsigned long long address, const std::vector<std::byte>& contents) const {
    must(cuda_.write(address, contents.data(), contents.size()), "cuMemcpyHtoD");
    must(cuda_.stream_synchronize(nullptr), "cuStreamSynchronize");
}

std::vector<std::byte> DeviceMemory::read(void* stream) const {
    must(cuda_.stream_synchronize(stream), "cuStreamSynchronize");
    std::vector<std::byte> all(bytes_ + 2 * guard);
    must(cuda_.read(all.data(), address_, all.size()), "cuMemcpyDtoH");
    for (std::size_t i = 0; i < guard; ++i)
        if (all[i] != std::byte{0x5a} || all[all.size() - 1 - i] != std::byte{0x5a})
            throw std::runtime_error("something was written beside the memory of the device");
    return {all.begin() + guard, all.end() - guard};
}

DeviceStream::DeviceStream(const Cuda& cuda) : cuda_(cuda) {
    must(cuda.stream_create(&handle_, 1), "cuStreamCreate");
}

DeviceStream::~DeviceStream() {
    go_on();
    cuda_.stream_synchronize(handle_);
    cuda_.stream_destroy(handle_);
}

void DeviceStream::hold() {
    is_held_ = true;
    const auto wait = [](void* held) {
        while (*static_cast<std::atomic<bool>*>(held))
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    must(cuda_.launch_host_function(handle_, wait, &is_held_), "cuLaunchHostFunc");
}

void DeviceStream::be_busy(int ms) {
    const auto wait = [](void* time) {
        std::this_thread::sleep_for(std::chrono::milliseconds(reinterpret_cast<std::intptr_t>(time)));
    };
    must(cuda_.launch_host_function(handle_, wait, reinterpret_cast<void*>(static_cast<std::intptr_t>(ms))),
         "cuLaunchHostFunc");
}

DeviceGraph::DeviceGraph(const Cuda& cuda, void* stream, const std::function<void()>& body) : cuda_(cuda) {
    constexpr int by_thread = 1;
    must(cuda.begin_capture(stream, by_thread), "cuStreamBeginCapture");
    try {
        body();
    } catch (...) {
        cuda.end_capture(stream, &graph_);
        if (graph_ != nullptr) cuda.graph_destroy(graph_);
        throw;
    }
    must(cuda.end_capture(stream, &graph_), "cuStreamEndCapture");
    must(cuda.graph_instantiate(&executable_, graph_, 0), "cuGraphInstantiate");
}

DeviceGraph::~DeviceGraph() {
    cuda_.executable_destroy(executable_);
    cuda_.graph_destroy(graph_);
}

void DeviceGraph::launch(void* stream) const {
    must(cuda_.graph_launch(executable_, stream), "cuGraphLaunch");
}

}  // namespace hocket::test
