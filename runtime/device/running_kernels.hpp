// The kernels of this process that wait for other ranks'. To load code, and to take memory of a device, may
// wait for all that the device does, and may hold a lock of the driver meanwhile. Where the other rank is a
// thread of the same process, its launch may need that lock, and then nothing ends. So code is loaded, and
// memory taken, while no such kernel runs.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include "runtime/device/driver.hpp"

namespace hocket::device {

// Thread-safe.
class RunningKernels {
  public:
    using Lock = std::unique_lock<std::mutex>;

    static RunningKernels& of_process() {
        static RunningKernels all;
        return all;
    }

    // Returns a lock that holds back launches; one that holds nothing if kernels may be running. Throws
    // hocket::Error (device).
    Lock hold_if_none();

    // Hold this while a kernel is launched; it waits while launches are held back.
    Lock launch() { return Lock(mutex_); }
    // Call with the lock of launch(). event: of the kernel's end, until remove(); of this context.
    void add(const Driver& driver, Context context, Event event) {
        running_.push_back({&driver, context, event});
    }
    void remove(Event event) {
        const Lock lock(mutex_);
        std::erase_if(running_, [&](const Kernel& kernel) { return kernel.end == event; });
    }

  private:
    struct Kernel {
        const Driver* driver;
        Context context;
        Event end;
    };

    std::mutex mutex_;
    std::vector<Kernel> running_;
};

}  // namespace hocket::device
