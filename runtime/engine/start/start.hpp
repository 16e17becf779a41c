// A start of an operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/engine/plan/plan.hpp"
#include "runtime/engine/start/tiling.hpp"

namespace hocket::device {
class Staging;
}

namespace hocket::engine {

class DeviceStart;

// One start on a communicator: the facts common to its tiles. All ranks number starts alike.
struct Start {
    Plan* plan = nullptr;
    std::uint64_t count = 0;         // as in Extent
    const Layout* uneven = nullptr;  // as in Extent; only while the start begins
    const std::byte* send = nullptr;
    std::byte* recv = nullptr;
    bool is_kernel = false;  // all ranks run it as kernels of devices, if they can
    double factor = 1;       // this rank's, if the plan multiplies
    std::shared_ptr<const compute::Arguments> arguments = nullptr;
    device::Staging* staging = nullptr;  // if send or recv are staging buffers of a device's; else null
    DeviceStart* direct = nullptr;       // while send and recv are device memory; else null
    std::uint64_t number = 0;            // counts all starts
    std::uint64_t sequence = 0;          // of the first tile
    std::uint32_t checksum = 0;          // of all that the ranks have started so far
    std::uint64_t identity = 0;          // of this start alone: Plan::identity
    Tiling tiling = {};                  // one tile until divide() has decided

    std::uint64_t tiles() const { return tiling.tiles(); }
};

}  // namespace hocket::engine
