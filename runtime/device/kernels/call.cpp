#include "runtime/device/kernels/call.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "runtime/base/error.hpp"

namespace hocket::device {
namespace {

thread_local Stream own_stream = nullptr;

// Memory of a pool, and managed memory, has no context of its own. The retained context is kept: kernels may
// still run in it after the call has returned.
Context primary_context(const Driver& driver, int device, const std::string& doing) {
    static std::mutex mutex;
    static std::map<int, Context> retained;
    const std::lock_guard lock(mutex);
    Context& context = retained[device];
    if (context != nullptr) return context;
    int handle = 0;
    driver.require(driver.device_get(&handle, device), "cuDeviceGet", doing);
    driver.require(driver.primary_context_retain(&context, handle), "cuDevicePrimaryCtxRetain", doing);
    return context;
}

Context context_of(const Driver& driver, Stream stream, const Place& memory, const std::string& doing) {
    if (is_default(stream))
        return memory.context ? memory.context : primary_context(driver, memory.device, doing);
    Context context = nullptr;
    driver.require(driver.stream_get_context(stream, &context), "cuStreamGetCtx",
                   "looking at the stream that was given to hkt_kernels_set_stream: has it been destroyed?");
    if (memory.context && context != memory.context)
        throw Error(
            Status::invalid_argument,
            fmt::format("{}: the stream that was given to hkt_kernels_set_stream is of another context "
                        "than the memory: name one of the memory's context, or the default stream",
                        doing));
    return context;
}

// Remembers which contexts have loaded the kernels' code.
class Loaded {
  public:
    // Calls load() once for each context. context: the thread's current one. Thread-safe; fast for the
    // context of the thread's last call.
    template <typename Load>
    void once(Context context, const Load& load) {
        thread_local Context last = nullptr;
        if (context == last) return;
        std::call_once(flag_of(context), load);
        last = context;
    }

  private:
    // Loading may wait for all work of a device. So no lock that calls on other devices need is held
    // meanwhile.
    std::once_flag& flag_of(Context context) {
        const std::lock_guard lock(mutex_);
        return flags_[context];
    }

    std::mutex mutex_;
    std::map<Context, std::once_flag> flags_;
} loaded;

}  // namespace

void set_kernel_stream(Stream stream) {
    if (stream != nullptr) require_driver();
    own_stream = stream;
}

KernelCall::KernelCall(const Driver& driver, const Place& memory, const std::string& doing)
    : doing_(doing), library_(kernel_library()), stream_(own_stream) {
    const Context context = context_of(driver, stream_, memory, doing);
    here_.emplace(driver, context, doing);
    int device = 0;
    driver.require(driver.context_get_device(&device), "cuCtxGetDevice", doing);
    if (device != memory.device)
        throw Error(
            Status::invalid_argument,
            fmt::format("{}: the stream that was given to hkt_kernels_set_stream is of device {}: name "
                        "one of the memory's device, or the default stream",
                        doing, device));
    loaded.once(context, [&] { require(library_.load()); });
}

void KernelCall::refuse(int result) const {
    throw Error(result == CUDA_ERROR_OUT_OF_MEMORY ? Status::out_of_memory : Status::device,
                fmt::format("{}: the kernels ({}) could not be enqueued: {} ({})", doing_, library_.path,
                            library_.error_name(result), library_.error_words(result)));
}

}  // namespace hocket::device
