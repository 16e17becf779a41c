#include "runtime/device/running_kernels.hpp"

namespace hocket::device {

RunningKernels::Lock RunningKernels::hold_if_none() {
    Lock lock(mutex_);
    const bool are_running = std::ranges::any_of(running_, [](const Kernel& kernel) {
        const InContext here(*kernel.driver, kernel.context, "looking for kernels that run");
        return kernel.driver->event_query(kernel.end) == CUDA_ERROR_NOT_READY;
    });
    if (are_running) lock.unlock();
    return lock;
}

}  // namespace hocket::device
