// The CUDA driver's functions that Hocket calls, by the stable binary interface of libcuda.so.1. They are
// declared here so that neither CUDA's headers nor its libraries are needed to build Hocket, or to run it
// without a device.
#pragma once

#include <cstdint>
#include <string>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;

namespace hocket::device {

using Context = CUctx_st*;
using Stream = CUstream_st*;  // null: the default stream of the context
using Event = CUevent_st*;
using Module = CUmod_st*;
using Function = CUfunc_st*;
using DevicePointer = unsigned long long;
struct IpcHandle {  // names an allocation to other processes
    char bytes[64];
};

// One row for each function: its name here, its symbol, its parameters. All return a CUresult.
#define HOCKET_CUDA_FUNCTIONS(X)                                                                       \
    X(pointer_get_attributes, cuPointerGetAttributes, (unsigned, const int*, void**, DevicePointer))   \
    X(device_get, cuDeviceGet, (int*, int))                                                            \
    X(device_get_attribute, cuDeviceGetAttribute, (int*, int, int))                                    \
    X(primary_context_retain, cuDevicePrimaryCtxRetain, (Context*, int))                               \
    X(primary_context_release, cuDevicePrimaryCtxRelease_v2, (int))                                    \
    X(context_push, cuCtxPushCurrent_v2, (Context))                                                    \
    X(context_pop, cuCtxPopCurrent_v2, (Context*))                                                     \
    X(context_get_device, cuCtxGetDevice, (int*))                                                      \
    X(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, (int*))                                \
    X(stream_create, cuStreamCreate, (Stream*, unsigned))                                              \
    X(stream_destroy, cuStreamDestroy_v2, (Stream))                                                    \
    X(stream_get_context, cuStreamGetCtx, (Stream, Context*))                                          \
    X(stream_query, cuStreamQuery, (Stream))                                                           \
    X(stream_is_capturing, cuStreamIsCapturing, (Stream, int*))                                        \
    X(stream_get_capture_info, cuStreamGetCaptureInfo, (Stream, int*, unsigned long long*))            \
    X(stream_wait_event, cuStreamWaitEvent, (Stream, Event, unsigned))                                 \
    X(event_create, cuEventCreate, (Event*, unsigned))                                                 \
    X(event_destroy, cuEventDestroy_v2, (Event))                                                       \
    X(event_record, cuEventRecord, (Event, Stream))                                                    \
    X(event_query, cuEventQuery, (Event))                                                              \
    X(host_alloc, cuMemHostAlloc, (void**, std::size_t, unsigned))                                     \
    X(host_free, cuMemFreeHost, (void*))                                                               \
    X(memory_alloc, cuMemAlloc_v2, (DevicePointer*, std::size_t))                                      \
    X(memory_free, cuMemFree_v2, (DevicePointer))                                                      \
    X(copy_to_host, cuMemcpyDtoHAsync_v2, (void*, DevicePointer, std::size_t, Stream))                 \
    X(copy_to_device, cuMemcpyHtoDAsync_v2, (DevicePointer, const void*, std::size_t, Stream))         \
    X(copy, cuMemcpyAsync, (DevicePointer, DevicePointer, std::size_t, Stream))                        \
    X(memory_set, cuMemsetD8Async, (DevicePointer, unsigned char, std::size_t, Stream))                \
    X(memory_range, cuMemGetAddressRange_v2, (DevicePointer*, std::size_t*, DevicePointer))            \
    X(ipc_get_handle, cuIpcGetMemHandle, (IpcHandle*, DevicePointer))                                  \
    X(ipc_open_handle, cuIpcOpenMemHandle_v2, (DevicePointer*, IpcHandle, unsigned))                   \
    X(ipc_close_handle, cuIpcCloseMemHandle, (DevicePointer))                                          \
    X(module_load, cuModuleLoadData, (Module*, const void*))                                           \
    X(module_unload, cuModuleUnload, (Module))                                                         \
    X(module_get_function, cuModuleGetFunction, (Function*, Module, const char*))                      \
    X(function_get_attribute, cuFuncGetAttribute, (int*, int, Function))                               \
    X(launch, cuLaunchKernel,                                                                          \
      (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, \
       void**))                                                                                        \
    X(error_name, cuGetErrorName, (int, const char**))                                                 \
    X(error_string, cuGetErrorString, (int, const char**))

// Values of CUDA's enumerations, under CUDA's names.
inline constexpr int CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1, CUDA_ERROR_OUT_OF_MEMORY = 2,
                     CUDA_ERROR_NOT_INITIALIZED = 3, CUDA_ERROR_DEINITIALIZED = 4,
                     CUDA_ERROR_INVALID_DEVICE = 101, CUDA_ERROR_INVALID_IMAGE = 200,
                     CUDA_ERROR_INVALID_CONTEXT = 201, CUDA_ERROR_MAP_FAILED = 205,
                     CUDA_ERROR_ALREADY_MAPPED = 208, CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
                     CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217, CUDA_ERROR_INVALID_PTX = 218,
                     CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221, CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
                     CUDA_ERROR_INVALID_HANDLE = 400, CUDA_ERROR_NOT_READY = 600,
                     CUDA_ERROR_TOO_MANY_PEERS = 711, CUDA_ERROR_NOT_PERMITTED = 800,
                     CUDA_ERROR_NOT_SUPPORTED = 801;
inline constexpr int CU_STREAM_CAPTURE_STATUS_ACTIVE = 1;
inline constexpr unsigned CU_MEMORYTYPE_DEVICE = 2, CU_MEMHOSTALLOC_PORTABLE = 1, CU_STREAM_NON_BLOCKING = 1,
                          CU_EVENT_DISABLE_TIMING = 2, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1;
inline constexpr int CU_POINTER_ATTRIBUTE_CONTEXT = 1, CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
                     CU_POINTER_ATTRIBUTE_BUFFER_ID = 7, CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
                     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
                     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE = 10, CU_STREAM_CAPTURE_MODE_RELAXED = 2;
inline constexpr int CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
                     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
                     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
                     CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0;
inline constexpr std::uintptr_t CU_STREAM_LEGACY = 1, CU_STREAM_PER_THREAD = 2;

struct Driver {
#define HOCKET_DECLARE(name, symbol, parameters) int(*name) parameters;
    HOCKET_CUDA_FUNCTIONS(HOCKET_DECLARE)
#undef HOCKET_DECLARE

    // Throws hocket::Error (device; out_of_memory for that result) for any result but success, with the text
    // "cuX failed: CUDA_ERROR_Y (words), <doing>". doing: the purpose of the call, with the buffer.
    void require(int result, const char* function, const std::string& doing) const {
        if (result != CUDA_SUCCESS) refuse(result, function, doing);
    }

  private:
    [[noreturn]] void refuse(int result, const char* function, const std::string& doing) const;
};

// Returns the driver if this process is known to have loaded it, otherwise null. Costs one load; makes no
// system call.
const Driver* known_driver() noexcept;

// Returns the driver, or null, as known_driver(), but first looks whether it has been loaded meanwhile (tens
// of nanoseconds unless a library has been loaded since the last look). Hocket does not load libcuda.so.1
// itself: without it in the process, there is no device memory. HOCKET_CUDA_DRIVER names a library that the
// first look loads instead. Throws hocket::Error (device) if that library cannot be loaded, or if a function
// is missing. Thread-safe.
const Driver* find_driver();

// Like find_driver(), for functions that were given a stream, which makes no sense without a driver: throws
// hocket::Error (invalid_argument) if the process has not loaded it.
const Driver& require_driver();

// Returns true if the stream is one that every context has.
inline bool is_default(Stream stream) {
    const auto handle = reinterpret_cast<std::uintptr_t>(stream);
    return handle == 0 || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

// Makes a context current in the calling thread for the lifetime of the object. Calls within it are allowed
// even while this or another thread is capturing a graph.
class InContext {
  public:
    // Throws hocket::Error (device). doing: as in Driver::require.
    InContext(const Driver& driver, Context context, const std::string& doing);
    ~InContext();
    InContext(const InContext&) = delete;

  private:
    const Driver& driver_;
    int capture_mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace hocket::device
