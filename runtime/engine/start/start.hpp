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

class DirectStart;

// One start on a communicator: the facts common to its tiles. All ranks number starts alike.
struct Start {
    Plan* plan = nullptr;
    std::uint64_t count = 0;         // as in Extent
    const Layout* uneven = nullptr;  // as in Extent; only while the start begins
    const std::byte* send = nullptr;
    std::byte* recv = nullptr;
    double factor = 1;  // this rank's, if the plan multiplies
    std::shared_ptr<const compute::Arguments> arguments = nullptr;
    device::Staging* staging = nullptr;  // if send or recv are staging buffers of a device's; else null
    DirectStart* direct = nullptr;       // while send and recv are device memory; else null
    std::uint64_t number = 0;            // counts all starts
    std::uint64_t sequence = 0;          // of the first tile
    std::uint32_t checksum = 0;          // of all that the ranks have started so far
    Tiling tiling = {};                  // one tile until divide() has decided

    std::uint64_t tiles() const { return tiling.tiles(); }
};

}  // namespace hocket::engine
