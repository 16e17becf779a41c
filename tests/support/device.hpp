// Memory and streams of a CUDA device, for tests, by the driver's own functions: of the tests' driver
// (tests/support/fake_cuda), or of a real one if HOCKET_TEST_CUDA_DRIVER names it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hocket::test {

// The functions of the driver, as far as tests call them. All but the first few return a CUresult.
struct Cuda {
    // Sets HOCKET_CUDA_DRIVER for the calling process, loads that library, and makes the device's primary
    // context the calling thread's. Throws std::runtime_error.
    static const Cuda& load();
    static std::string path();
    static bool is_fake();

    void use_device(int ordinal) const;  // by the calling thread
    int devices() const;

    int (*init)(unsigned);
    int (*device_get_count)(int*);
    int (*primary_context_retain)(void**, int);
    int (*context_set_current)(void*);
    int (*context_get_device)(int*);
    int (*context_create)(void**, unsigned, int);  // beside the primary one; it becomes the thread's
    int (*allocate)(unsigned long long*, std::size_t);
    int (*release)(unsigned long long);
    int (*host_allocate)(void**, std::size_t, unsigned);
    int (*host_release)(void*);
    int (*read)(void*, unsigned long long, std::size_t);
    int (*write)(unsigned long long, const void*, std::size_t);
    int (*read_async)(void*, unsigned long long, std::size_t, void*);
    int (*write_async)(unsigned long long, const void*, std::size_t, void*);
    int (*stream_create)(void**, unsigned);
    int (*stream_destroy)(void*);
    int (*stream_synchronize)(void*);
    int (*launch_host_function)(void*, void (*)(void*), void*);
    int (*begin_capture)(void*, int);
    int (*end_capture)(void*, void**);
    int (*graph_instantiate)(void**, void*, unsigned long long);
    int (*graph_launch)(void*, void*);
    int (*graph_destroy)(void*);
    int (*executable_destroy)(void*);

    // A function of the tests' driver; null with a real one.
    void (*fail)(const char* function, int after, int result);
    unsigned long long (*count)(const char* what);
    void (*capture)(void* stream, int captures);
    // From now on copies from device to device don't end, or end after all.
    void (*hold_copies)(int holds);
    // From now on kernels of plans don't begin, or begin after all.
    void (*hold_kernels)(int holds);
    void (*replay)(void* stream);
};

void must(int cuda_result, const char* what);

// With guards around it, which stay as they are.
class DeviceMemory {
  public:
    DeviceMemory(const Cuda& cuda, std::size_t bytes);
    ~DeviceMemory();
    DeviceMemory(const DeviceMemory&) = delete;

    std::byte* data() const { return reinterpret_cast<std::byte*>(address_ + guard); }
    void write(const std::vector<std::byte>& contents, std::size_t at = 0) const;
    // Once the stream's work has ended. Throws std::runtime_error if a guard was written to.
    std::vector<std::byte> read(void* stream = nullptr) const;

  private:
    static constexpr std::size_t guard = 256;
    void write_at(unsigned long long address, const std::vector<std::byte>& contents) const;

    const Cuda& cuda_;
    const std::size_t bytes_;
    unsigned long long address_ = 0;
};

class DeviceStream {
  public:
    explicit DeviceStream(const Cuda& cuda);
    ~DeviceStream();
    DeviceStream(const DeviceStream&) = delete;

    void* handle() const { return handle_; }
    // Operations that are enqueued from now on wait until go_on().
    void hold();
    void go_on() { is_held_ = false; }
    // Work that takes so long.
    void be_busy(int ms);

  private:
    const Cuda& cuda_;
    void* handle_ = nullptr;
    std::atomic<bool> is_held_ = false;
};

// What a stream is given while it is being captured.
class DeviceGraph {
  public:
    DeviceGraph(const Cuda& cuda, void* stream, const std::function<void()>& body);
    ~DeviceGraph();
    DeviceGraph(const DeviceGraph&) = delete;

    void launch(void* stream) const;

  private:
    const Cuda& cuda_;
    void *graph_ = nullptr, *executable_ = nullptr;
};

}  // namespace hocket::test
