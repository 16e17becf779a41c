// The driver's functions. Parameters that do not matter have no name.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "tests/support/fake_cuda/fake.hpp"

using namespace fake_cuda;

namespace {

std::mutex mutex;  // guards the following members
std::map<std::string, int> calls;
struct {
    std::string function;  // "" or "*": none or all
    int after = 0, result = success;
} failing;
std::atomic<bool> has_failed{false}, is_initialized{false}, holds_copies{false}, holds_kernels{false};
std::set<Stream*> streams;
std::set<Event*> events;
std::map<Context*, std::unique_ptr<Stream>> default_streams;
std::map<int, int> retained;         // by device
std::set<const Context*> with_code;  // of all kernels

Context contexts[devices] = {{0}, {1}};  // the primary ones
thread_local std::vector<Context*> current;

#define BEGIN(function) \
    if (const int failure = result_of_call(function); failure != success) return failure;
#define BEGIN_IN_CONTEXT(function) \
    BEGIN(function)                \
    if (current.empty() || current.back() == nullptr) return invalid_context;

// Null for a handle that is no stream's. The caller holds no lock.
Stream* stream_of(void* handle) {
    const std::lock_guard lock(mutex);
    if (reinterpret_cast<std::uintptr_t>(handle) > 2) {
        auto* stream = static_cast<Stream*>(handle);
        return streams.count(stream) ? stream : nullptr;
    }
    std::unique_ptr<Stream>& stream = default_streams[current.back()];
    if (!stream) stream = std::make_unique<Stream>(*current.back());
    return stream.get();
}

void wait_for(Stream& stream) {
    while (!stream.is_idle()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// Waits for every stream, as drivers do when memory of a device, or pinned memory, is freed.
void wait_for_device() {
    Stream& default_stream = *stream_of(nullptr);
    const auto is_idle = [&] {
        const std::lock_guard lock(mutex);
        return default_stream.is_idle() && std::all_of(streams.begin(), streams.end(), [&](Stream* stream) {
                   return &stream->context != &default_stream.context || stream->is_idle();
               });
    };
    while (!is_idle()) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

bool has_code(const Context& context) {
    const std::lock_guard lock(mutex);
    return with_code.count(&context) != 0;
}

Event* event_of(void* handle) {
    const std::lock_guard lock(mutex);
    auto* event = static_cast<Event*>(handle);
    return events.count(event) ? event : nullptr;
}

template <typename T>
T value_of(void* at, T value) {
    return std::memcpy(at, &value, sizeof value), value;
}

int copy(void* host, unsigned long long device, std::size_t bytes, void* handle, bool to_host) {
    Stream* stream = stream_of(handle);
    if (stream == nullptr || &stream->context != current.back()) return invalid_handle;
    if (stream->capture) return not_supported;  // by this driver
    auto* memory = reinterpret_cast<void*>(device);
    std::byte* shadow = shadow_of(memory, bytes);
    if (shadow == nullptr || !is_pinned(host, bytes)) return invalid_value;
    use_pinned(host, 1);
    use_allocation(memory, 1);
    stream->enqueue([=] {
        std::memset(to_host ? host : shadow, 0xdb, bytes);
        stream->be_late();
        to_host ? std::memcpy(host, shadow, bytes) : std::memcpy(shadow, host, bytes);
        use_pinned(host, -1);
        use_allocation(memory, -1);
    });
    return success;
}

// From memory of a device to memory of a device. Both may be another process's, and used from the call on.
int copy_inside(unsigned long long to, unsigned long long from, std::size_t bytes, void* handle) {
    Stream* stream = stream_of(handle);
    if (stream == nullptr || &stream->context != current.back()) return invalid_handle;
    if (stream->capture) return not_supported;  // by this driver
    auto *target = reinterpret_cast<void*>(to), *source = reinterpret_cast<void*>(from);
    std::byte *written = shadow_of(target, bytes), *read = shadow_of(source, bytes);
    if (written == nullptr || read == nullptr) return invalid_value;
    for (const void* memory : {target, source}) {
        use_allocation(memory, 1);
        begin_use_elsewhere(memory);
    }
    stream->enqueue([=] {
        std::memset(written, 0xdb, bytes);
        while (holds_copies) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        stream->be_late();
        std::memcpy(written, read, bytes);
        for (const void* memory : {target, source}) {
            end_use_elsewhere(memory);
            use_allocation(memory, -1);
        }
    });
    return success;
}

}  // namespace

namespace fake_cuda {

void fault(const std::string& text) {
    std::fprintf(stderr, "fake CUDA driver: %s\n", text.c_str());
    std::abort();
}

int result_of_call(const char* function) {
    const std::lock_guard lock(mutex);
    ++calls[function];
    if (failing.function != "*" && failing.function != function) return success;
    if (failing.after-- > 0) return success;
    failing.after = 0;
    has_failed = true;
    if (failing.result == launch_failed) give_uses_up();
    return failing.result;
}

bool any_call_has_failed() {
    return has_failed;
}

}  // namespace fake_cuda

// ---- For tests ----------------------------------------------------------------------------------

// From now on calls of the function fail with the result, after `after` calls that don't. "" ends it, "*":
// any.
FAKE_CUDA_API void fake_cuda_fail(const char* function, int after, int result) {
    const std::lock_guard lock(mutex);
    failing = {function, after, result};
}

// "pinned" (bytes), "streams", "events", "contexts" (retained), "opened" (of other processes' memory): the
// present number. "met": the processes whose memory copies have been from or to. "by packets": the kernels of
// plans that went so. Any other name: the number of calls of that function.
FAKE_CUDA_API unsigned long long fake_cuda_count(const char* what) {
    const std::string name = what;
    if (name == "pinned") return pinned_bytes();
    if (name == "opened") return opened();
    if (name == "met") return met();
    if (name == "by packets") return runs_by_packets();
    const std::lock_guard lock(mutex);
    if (name == "streams") return streams.size();
    if (name == "events") return events.size();
    if (name == "contexts") {
        int count = 0;
        for (const auto& [device, times] : retained) count += times;
        return static_cast<unsigned long long>(count);
    }
    return static_cast<unsigned long long>(calls[name]);
}

// Capture a graph of the stream, and launch it.
FAKE_CUDA_API int cuStreamBeginCapture_v2(void* handle, int mode);
FAKE_CUDA_API int cuStreamEndCapture(void* handle, Graph** graph);
FAKE_CUDA_API int cuGraphLaunch(Graph* graph, void* handle);

FAKE_CUDA_API void fake_cuda_capture(void* handle, int captures) {
    Stream* stream = stream_of(handle);
    if (captures != 0)
        cuStreamBeginCapture_v2(handle, 0);
    else
        cuStreamEndCapture(handle, &stream->captured);
}

FAKE_CUDA_API void fake_cuda_replay(void* handle) {
    cuGraphLaunch(stream_of(handle)->captured, handle);
}

FAKE_CUDA_API void fake_cuda_hold_copies(int holds) {
    holds_copies = holds != 0;
}

FAKE_CUDA_API void fake_cuda_hold_kernels(int holds) {
    holds_kernels = holds != 0;
}

// ---- Processes, devices, contexts ---------------------------------------------------------------

FAKE_CUDA_API int cuInit(unsigned) {
    BEGIN("cuInit")
    is_initialized = true;
    return success;
}

FAKE_CUDA_API int cuGetErrorName(int result, const char** name) {
    *name = result == out_of_memory     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == launch_failed   ? "CUDA_ERROR_LAUNCH_FAILED"
            : result == invalid_value   ? "CUDA_ERROR_INVALID_VALUE"
            : result == invalid_context ? "CUDA_ERROR_INVALID_CONTEXT"
            : result == invalid_handle  ? "CUDA_ERROR_INVALID_HANDLE"
            : result == invalid_image   ? "CUDA_ERROR_INVALID_IMAGE"
            : result == not_supported   ? "CUDA_ERROR_NOT_SUPPORTED"
                                        : nullptr;
    return *name == nullptr ? invalid_value : success;
}

FAKE_CUDA_API int cuGetErrorString(int result, const char** text) {
    *text = result == launch_failed ? "unspecified launch failure" : "words of the fake driver";
    return success;
}

FAKE_CUDA_API int cuDeviceGetCount(int* count) {
    BEGIN("cuDeviceGetCount")
    if (!is_initialized) return not_initialized;
    *count = devices;
    return success;
}

FAKE_CUDA_API int cuDeviceGet(int* device, int ordinal) {
    BEGIN("cuDeviceGet")
    if (!is_initialized) return not_initialized;
    if (ordinal < 0 || ordinal >= devices) return invalid_device;
    *device = ordinal;
    return success;
}

FAKE_CUDA_API int cuDevicePrimaryCtxRetain(Context** context, int device) {
    BEGIN("cuDevicePrimaryCtxRetain")
    const std::lock_guard lock(mutex);
    ++retained[device];
    *context = &contexts[device];
    return success;
}

FAKE_CUDA_API int cuDevicePrimaryCtxRelease_v2(int device) {
    BEGIN("cuDevicePrimaryCtxRelease")
    const std::lock_guard lock(mutex);
    return --retained[device] < 0 ? invalid_context : success;
}

FAKE_CUDA_API int cuCtxSetCurrent(Context* context) {
    if (!current.empty()) current.pop_back();
    if (context != nullptr) current.push_back(context);
    return success;
}

FAKE_CUDA_API int cuCtxPushCurrent_v2(Context* context) {
    BEGIN("cuCtxPushCurrent")
    current.push_back(context);
    return success;
}

FAKE_CUDA_API int cuCtxPopCurrent_v2(Context** context) {
    if (current.empty()) return invalid_context;
    *context = current.back();
    current.pop_back();
    return success;
}

FAKE_CUDA_API int cuCtxGetDevice(int* device) {
    BEGIN_IN_CONTEXT("cuCtxGetDevice")
    *device = current.back()->device;
    return success;
}

// Beside the primary one. It becomes the calling thread's, and lives as long as the process.
FAKE_CUDA_API int cuCtxCreate_v2(Context** context, unsigned, int device) {
    BEGIN("cuCtxCreate")
    if (device < 0 || device >= devices) return invalid_device;
    *context = new Context{device};
    current.push_back(*context);
    return success;
}

FAKE_CUDA_API int cuThreadExchangeStreamCaptureMode(int* mode) {
    thread_local int own = 0;
    std::swap(own, *mode);
    return success;
}

// ---- Memory -------------------------------------------------------------------------------------

FAKE_CUDA_API int cuPointerGetAttributes(unsigned count, const int* attributes, void** values,
                                         unsigned long long pointer) {
    BEGIN("cuPointerGetAttributes")
    if (!is_initialized) return not_initialized;
    auto* memory = reinterpret_cast<void*>(pointer);
    const Allocation* allocation = allocation_of(memory);
    // As memory of a pool has no context of its own, that of device 1 says that it has none.
    const bool has_context = allocation != nullptr && allocation->context->device == 0;
    for (unsigned i = 0; i < count; ++i) switch (attributes[i]) {
            case 1:
                value_of<Context*>(values[i], has_context ? allocation->context : nullptr);
                break;
            case 2:
                value_of(values[i], allocation ? 2u : is_pinned(memory, 1) ? 1u : 0u);
                break;
            case 7:
                value_of<unsigned long long>(values[i], allocation ? allocation->number : 0);
                break;
            case 8:
                value_of(values[i], 0u);
                break;
            case 10:
                value_of(values[i], has_context ? 1u : 0u);
                break;
            case 9:
                value_of(values[i], allocation ? allocation->context->device : -2);
                break;
            default:
                return invalid_value;
        }
    return success;
}

FAKE_CUDA_API int cuMemAlloc_v2(unsigned long long* pointer, std::size_t bytes) {
    BEGIN_IN_CONTEXT("cuMemAlloc")
    std::byte* begin = nullptr;
    const int result = bytes == 0 ? invalid_value : allocate(bytes, *current.back(), begin);
    *pointer = reinterpret_cast<std::uintptr_t>(begin);
    return result;
}

FAKE_CUDA_API int cuMemFree_v2(unsigned long long pointer) {
    BEGIN_IN_CONTEXT("cuMemFree")
    if (!release(reinterpret_cast<std::byte*>(pointer))) return invalid_value;
    wait_for_device();
    return success;
}

FAKE_CUDA_API int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned) {
    BEGIN_IN_CONTEXT("cuMemHostAlloc")
    return pin(bytes, *memory);
}

FAKE_CUDA_API int cuMemFreeHost(void* memory) {
    BEGIN_IN_CONTEXT("cuMemFreeHost")
    const int result = unpin(memory);
    wait_for_device();
    return result;
}

FAKE_CUDA_API int cuMemcpyDtoHAsync_v2(void* host, unsigned long long device, std::size_t bytes,
                                       void* stream) {
    BEGIN_IN_CONTEXT("cuMemcpyDtoHAsync")
    return copy(host, device, bytes, stream, true);
}

FAKE_CUDA_API int cuMemcpyHtoDAsync_v2(unsigned long long device, const void* host, std::size_t bytes,
                                       void* stream) {
    BEGIN_IN_CONTEXT("cuMemcpyHtoDAsync")
    return copy(const_cast<void*>(host), device, bytes, stream, false);
}

FAKE_CUDA_API int cuMemcpyAsync(unsigned long long to, unsigned long long from, std::size_t bytes,
                                void* stream) {
    BEGIN_IN_CONTEXT("cuMemcpyAsync")
    return copy_inside(to, from, bytes, stream);
}

FAKE_CUDA_API int cuMemsetD8Async(unsigned long long device, unsigned char value, std::size_t bytes,
                                  void* handle) {
    BEGIN_IN_CONTEXT("cuMemsetD8Async")
    Stream* stream = stream_of(handle);
    if (stream == nullptr || &stream->context != current.back()) return invalid_handle;
    if (stream->capture) return not_supported;  // by this driver
    auto* memory = reinterpret_cast<void*>(device);
    std::byte* shadow = shadow_of(memory, bytes);
    if (shadow == nullptr) return invalid_value;
    use_allocation(memory, 1);
    stream->enqueue([=] {
        std::memset(shadow, 0xdb, bytes);
        stream->be_late();
        std::memset(shadow, value, bytes);
        use_allocation(memory, -1);
    });
    return success;
}

FAKE_CUDA_API int cuMemGetAddressRange_v2(unsigned long long* begin, std::size_t* bytes,
                                          unsigned long long pointer) {
    BEGIN_IN_CONTEXT("cuMemGetAddressRange")
    const Allocation* allocation = allocation_of(reinterpret_cast<void*>(pointer));
    if (allocation == nullptr) return invalid_value;
    *begin = reinterpret_cast<std::uintptr_t>(allocation->begin);
    *bytes = allocation->bytes;
    return success;
}

// Behind the default stream's work, and at once then: the caller knows that no other stream uses the memory.
FAKE_CUDA_API int cuMemcpyDtoH_v2(void* host, unsigned long long device, std::size_t bytes) {
    BEGIN_IN_CONTEXT("cuMemcpyDtoH")
    wait_for(*stream_of(nullptr));
    const std::byte* shadow = shadow_of(reinterpret_cast<void*>(device), bytes);
    if (shadow == nullptr) return invalid_value;
    std::memcpy(host, shadow, bytes);
    return success;
}

// On the default stream. It returns when the host's memory has been read, which is before the device has the
// data: only the default stream, and work that waits for it, comes after that.
FAKE_CUDA_API int cuMemcpyHtoD_v2(unsigned long long device, const void* host, std::size_t bytes) {
    BEGIN_IN_CONTEXT("cuMemcpyHtoD")
    auto* memory = reinterpret_cast<void*>(device);
    std::byte* shadow = shadow_of(memory, bytes);
    if (shadow == nullptr) return invalid_value;
    const auto* begin = static_cast<const std::byte*>(host);
    use_allocation(memory, 1);
    Stream* stream = stream_of(nullptr);
    stream->enqueue([=, read = std::vector<std::byte>(begin, begin + bytes)] {
        stream->be_late();
        std::memcpy(shadow, read.data(), bytes);
        use_allocation(memory, -1);
    });
    return success;
}

// ---- Between processes --------------------------------------------------------------------------

struct IpcHandle {
    char bytes[64];
};

// Memory of a pool has no handle.
FAKE_CUDA_API int cuIpcGetMemHandle(IpcHandle* handle, unsigned long long pointer) {
    BEGIN_IN_CONTEXT("cuIpcGetMemHandle")
    auto* memory = reinterpret_cast<void*>(pointer);
    const Allocation* allocation = allocation_of(memory);
    Handle made{};
    if (allocation == nullptr || allocation->context->device != 0 || !export_allocation(memory, made))
        return invalid_value;
    std::memcpy(handle->bytes, &made, sizeof made);
    return success;
}

FAKE_CUDA_API int cuIpcOpenMemHandle_v2(unsigned long long* pointer, IpcHandle handle, unsigned) {
    BEGIN_IN_CONTEXT("cuIpcOpenMemHandle")
    Handle given{};
    std::memcpy(&given, handle.bytes, sizeof given);
    std::byte* begin = nullptr;
    const int result = open_exported(given, *current.back(), begin);
    *pointer = reinterpret_cast<std::uintptr_t>(begin);
    return result;
}

FAKE_CUDA_API int cuIpcCloseMemHandle(unsigned long long pointer) {
    BEGIN_IN_CONTEXT("cuIpcCloseMemHandle")
    const int result = close_exported(reinterpret_cast<std::byte*>(pointer));
    wait_for_device();
    return result;
}

// ---- Kernels ------------------------------------------------------------------------------------

// Brings the code of all kernels to the context. Without it, each launch waits as if it were the kernel's
// first.
FAKE_CUDA_API int fake_cuda_load() {
    BEGIN_IN_CONTEXT("cuFuncLoad")
    wait_for_device();
    const std::lock_guard lock(mutex);
    with_code.insert(current.back());
    return success;
}

// Stands for a real driver's launch: the work runs on the stream, where it can touch the device's memory.
FAKE_CUDA_API int fake_cuda_launch(void* handle, std::function<void()> work) {
    BEGIN_IN_CONTEXT("cuLaunchKernel")
    Stream* stream = stream_of(handle);
    if (stream == nullptr || &stream->context != current.back()) return invalid_handle;
    if (!has_code(*current.back())) wait_for_device();
    const auto run = [work = std::move(work), device = stream->context.device] {
        static std::mutex one_at_a_time;
        const std::lock_guard lock(one_at_a_time);
        const auto opened = open_memory(device);
        try {
            work();
        } catch (const std::exception& error) {
            fault(error.what());
        }
        close_memory(opened);
    };
    stream->put(run);
    return success;
}

// ---- Kernels of plans ---------------------------------------------------------------------------

FAKE_CUDA_API int cuDeviceGetAttribute(int* value, int attribute, int device) {
    BEGIN("cuDeviceGetAttribute")
    if (device < 0 || device >= devices) return invalid_device;
    switch (attribute) {
        case 16:
            *value = processors;
            return success;
        case 75:
        case 76:
            *value = attribute == 75 ? capability() / 10 : capability() % 10;
            return success;
        default:
            return invalid_value;
    }
}

// Waits for the device, as a driver may that brings code there.
FAKE_CUDA_API int cuModuleLoadData(PlanModule** module, const void* image) {
    BEGIN_IN_CONTEXT("cuModuleLoadData")
    wait_for_device();
    return load_plan(static_cast<const char*>(image), *current.back(), *module);
}

FAKE_CUDA_API int cuModuleUnload(PlanModule* module) {
    BEGIN_IN_CONTEXT("cuModuleUnload")
    return unload_plan(module);
}

FAKE_CUDA_API int cuModuleGetFunction(PlanModule** function, PlanModule* module, const char* name) {
    BEGIN_IN_CONTEXT("cuModuleGetFunction")
    if (!is_plan(module) || std::strcmp(name, "hocket_plan") != 0) return not_found;
    *function = module;
    return success;
}

// The first question about a function brings its code to the device; a launch before that fails.
FAKE_CUDA_API int cuFuncGetAttribute(int* value, int attribute, PlanModule* function) {
    BEGIN_IN_CONTEXT("cuFuncGetAttribute")
    if (!is_plan(function) || attribute != 0) return invalid_value;
    function->is_there = true;
    *value = most_threads;
    return success;
}

FAKE_CUDA_API int cuLaunchKernel(PlanModule* function, unsigned blocks, unsigned blocks_y, unsigned blocks_z,
                                 unsigned threads, unsigned threads_y, unsigned threads_z, unsigned,
                                 void* handle, void** parameters, void**) {
    BEGIN_IN_CONTEXT("cuLaunchKernel")
    Stream* stream = stream_of(handle);
    if (stream == nullptr || &stream->context != current.back() || !is_plan(function) ||
        function->context != current.back())
        return invalid_handle;
    const bool is_flat = blocks_y == 1 && blocks_z == 1 && threads_y == 1 && threads_z == 1;
    if (!is_flat || blocks == 0 || threads == 0 || threads > most_threads || !function->is_there)
        return invalid_value;
    if (blocks > processors) fault("a plan's kernel has more blocks than may run at a time");
    unsigned long long argument = 0;
    std::memcpy(&argument, parameters[0], sizeof argument);
    const auto run = [=, device = stream->context.device] {
        stream->be_late();
        while (holds_kernels) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const auto opened = open_memory(device);
        run_plan(*function, blocks, threads, argument);
        close_memory(opened);
    };
    stream->put(run);
    return success;
}

// ---- Streams and events -------------------------------------------------------------------------

FAKE_CUDA_API int cuStreamCreate(Stream** stream, unsigned) {
    BEGIN_IN_CONTEXT("cuStreamCreate")
    *stream = new Stream(*current.back());
    const std::lock_guard lock(mutex);
    streams.insert(*stream);
    return success;
}

// The stream's work goes on without its handle.
FAKE_CUDA_API int cuStreamDestroy_v2(Stream* stream) {
    BEGIN("cuStreamDestroy")
    const std::lock_guard lock(mutex);
    if (streams.erase(stream) == 0) return invalid_handle;
    std::thread([stream] { delete stream; }).detach();
    return success;
}

FAKE_CUDA_API int cuStreamGetCtx(void* handle, Context** context) {
    BEGIN("cuStreamGetCtx")
    Stream* stream = stream_of(handle);
    if (stream == nullptr) return invalid_handle;
    *context = &stream->context;
    return success;
}

// ---- Graphs -------------------------------------------------------------------------------------

FAKE_CUDA_API int cuStreamBeginCapture_v2(void* handle, int) {
    BEGIN_IN_CONTEXT("cuStreamBeginCapture")
    Stream* stream = stream_of(handle);
    if (stream == nullptr) return invalid_handle;
    // The default stream cannot be captured.
    if (reinterpret_cast<std::uintptr_t>(handle) <= 1) return capture_unsupported;
    if (stream->capture) return illegal_state;
    stream->capture = std::make_shared<Capture>(handle);
    return success;
}

FAKE_CUDA_API int cuStreamEndCapture(void* handle, Graph** graph) {
    BEGIN_IN_CONTEXT("cuStreamEndCapture")
    Stream* stream = stream_of(handle);
    *graph = nullptr;
    if (stream == nullptr) return invalid_handle;
    if (!stream->capture || stream->capture->origin != handle) return illegal_state;
    const std::shared_ptr<Capture> ended = std::move(stream->capture);
    {
        const std::lock_guard lock(mutex);
        for (Stream* other : streams)
            if (other->capture == ended) other->capture.reset();
    }
    if (ended->is_invalid) return capture_invalidated;
    *graph = new Graph{std::move(ended->nodes)};
    return success;
}

FAKE_CUDA_API int cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long) {
    BEGIN_IN_CONTEXT("cuGraphInstantiate")
    *executable = new Graph(*graph);
    return success;
}

// The nodes come behind the stream's work, and before what follows.
FAKE_CUDA_API int cuGraphLaunch(Graph* graph, void* handle) {
    BEGIN_IN_CONTEXT("cuGraphLaunch")
    Stream* stream = stream_of(handle);
    if (stream == nullptr || graph == nullptr) return invalid_handle;
    for (const auto& node : graph->nodes) stream->put(node);
    return success;
}

FAKE_CUDA_API int cuGraphDestroy(Graph* graph) {
    delete graph;
    return success;
}

FAKE_CUDA_API int cuGraphExecDestroy(Graph* graph) {
    delete graph;
    return success;
}

FAKE_CUDA_API int cuStreamIsCapturing(void* handle, int* is_capturing) {
    BEGIN_IN_CONTEXT("cuStreamIsCapturing")
    Stream* stream = stream_of(handle);
    if (stream == nullptr) return invalid_handle;
    *is_capturing = stream->capture ? 1 : 0;
    return success;
}

FAKE_CUDA_API int cuStreamGetCaptureInfo(void* handle, int* status, unsigned long long* number) {
    BEGIN_IN_CONTEXT("cuStreamGetCaptureInfo")
    Stream* stream = stream_of(handle);
    if (stream == nullptr) return invalid_handle;
    *status = stream->capture ? 1 : 0;
    if (stream->capture) *number = stream->capture->number;
    return success;
}

// ---- Streams and events, between which captures are carried --------------------------------------

// A stream that waits for a captured event joins the capture. One that is being captured can wait for no
// other event.
FAKE_CUDA_API int cuStreamWaitEvent(void* handle, void* event_handle, unsigned) {
    BEGIN_IN_CONTEXT("cuStreamWaitEvent")
    Stream* stream = stream_of(handle);
    Event* event = event_of(event_handle);
    if (stream == nullptr || event == nullptr) return invalid_handle;
    if (event->is_captured || stream->capture) {
        const std::shared_ptr<Capture> capture = event->capture.lock();
        if (event->is_captured && capture && (!stream->capture || stream->capture == capture)) {
            stream->capture = capture;
            return success;
        }
        if (stream->capture) stream->capture->is_invalid = true;
        return capture_isolation;
    }
    if (const auto mark = event->mark) stream->enqueue([mark] { mark->wait(); });
    return success;
}

FAKE_CUDA_API int cuStreamQuery(void* handle) {
    BEGIN_IN_CONTEXT("cuStreamQuery")
    Stream* stream = stream_of(handle);
    if (stream == nullptr) return invalid_handle;
    if (stream->capture) return stream->capture->is_invalid = true, capture_unsupported;
    return stream->is_idle() ? success : not_ready;
}

FAKE_CUDA_API int cuStreamSynchronize(void* handle) {
    BEGIN_IN_CONTEXT("cuStreamSynchronize")
    Stream* stream = stream_of(handle);
    if (stream == nullptr) return invalid_handle;
    if (stream->capture) return stream->capture->is_invalid = true, capture_unsupported;
    const auto mark = std::make_shared<Mark>();
    stream->enqueue([mark] { mark->set(); });
    mark->wait();
    return success;
}

FAKE_CUDA_API int cuLaunchHostFunc(void* handle, void (*function)(void*), void* argument) {
    BEGIN_IN_CONTEXT("cuLaunchHostFunc")
    Stream* stream = stream_of(handle);
    if (stream == nullptr) return invalid_handle;
    stream->put([=] { function(argument); });
    return success;
}

FAKE_CUDA_API int cuEventCreate(Event** event, unsigned) {
    BEGIN_IN_CONTEXT("cuEventCreate")
    *event = new Event{*current.back(), nullptr};
    const std::lock_guard lock(mutex);
    events.insert(*event);
    return success;
}

FAKE_CUDA_API int cuEventDestroy_v2(Event* event) {
    BEGIN("cuEventDestroy") {
        const std::lock_guard lock(mutex);
        if (events.erase(event) == 0) fault("cuEventDestroy of what is no event");
    }
    delete event;
    return success;
}

FAKE_CUDA_API int cuEventRecord(void* event_handle, void* handle) {
    BEGIN_IN_CONTEXT("cuEventRecord")
    Stream* stream = stream_of(handle);
    Event* event = event_of(event_handle);
    if (stream == nullptr || event == nullptr || &stream->context != &event->context) return invalid_handle;
    event->capture = stream->capture;
    event->is_captured = stream->capture != nullptr;
    if (event->is_captured) return success;
    event->mark = std::make_shared<Mark>();
    stream->enqueue([mark = event->mark] { mark->set(); });
    return success;
}

FAKE_CUDA_API int cuEventQuery(void* event_handle) {
    BEGIN_IN_CONTEXT("cuEventQuery")
    Event* event = event_of(event_handle);
    if (event == nullptr) return invalid_handle;
    if (event->is_captured) return captured_event;
    return event->mark == nullptr || event->mark->is_set() ? success : not_ready;
}
