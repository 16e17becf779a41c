// What a worker of a parameter service counts.
#pragma once

#include <cstdint>

#include "runtime/params/protocol/message.hpp"

namespace hocket::params {

struct WorkerStats {
    Clock clock;                               // of this worker
    std::uint64_t bytes_sent, bytes_received;  // of elements, on all connections
    std::uint64_t kept_bytes;                  // of updates that servers may ask for again
    std::uint64_t epochs;                      // the highest that a server has announced
    std::uint64_t reconnections;               // to servers
    std::uint64_t children;                    // the workers below this one, over all servers' trees
};

}  // namespace hocket::params
