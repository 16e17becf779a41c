// Finds the buffers of starts that are on devices, and keeps what a communicator has of these devices.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/layout.hpp"
#include "runtime/device/devices.hpp"
#include "runtime/engine/job/options.hpp"
#include "runtime/engine/job/rank_log.hpp"
#include "runtime/engine/progress/progress.hpp"

namespace hocket::engine {

// Thread-safe.
class DeviceBuffers {
  public:
    // progress: learns of a start whose buffers cannot be used.
    DeviceBuffers(const Options& options, const RankLog& log, const transport::Window& window,
                  Progress& progress);

    // Small starts must not pay for looking whether a driver has been loaded.
    static bool may_be_used(const Extent& extent) {
        return device::known_driver() != nullptr || extent.count > most_without_look;
    }
    // Return nullopt if all buffers are on the host.
    std::optional<device::Buffers> of(const Plan& plan, const void* send, const void* recv,
                                      const Extent& extent);
    std::optional<device::Buffers> of(const MessageStart& message);

    // Sets the stream for operations on device memory that the calling thread starts. Throws hocket::Error
    // (invalid_argument: this process has no driver).
    void set_stream(device::Stream stream);

    // Loads the kernel of a plan onto the device of the calling thread's context, if its starts run as
    // kernels, so that none of them has to. A plan that cannot be a kernel there says so at its first start.
    // Throws hocket::Error (device).
    void load_kernel(const Plan& plan);

    // Returns why starts on memory of devices went by way of the host, a line for each reason.
    const std::string& by_host() const { return devices_.by_host().text(); }

  private:
    static constexpr std::uint64_t most_without_look = 4096;  // elements

    std::optional<device::Place> place_of(const device::Driver& driver, const void* memory,
                                          const char* name) const;
    std::vector<std::optional<device::Place>> further_of(const device::Driver& driver,
                                                         const compute::Arguments& arguments) const;

    device::Devices devices_;
    const transport::Window& window_;
    Progress& progress_;
};

}  // namespace hocket::engine
