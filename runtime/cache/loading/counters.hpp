// Counts a cache's operations since it was opened.
#pragma once

#include <atomic>
#include <cstdint>

namespace hocket::cache {

struct Counters {
    std::atomic<std::uint64_t> disk_hits = 0, peer_hits = 0, source_reads = 0, failures = 0;
    std::atomic<std::uint64_t> disk_read_bytes = 0, peer_read_bytes = 0, source_read_bytes = 0;
    std::atomic<std::uint64_t> shared_loads = 0, peer_failures = 0, served = 0, wait_ns = 0;
    std::atomic<std::uint64_t> writes_skipped = 0;  // the disk was too far behind
};

}  // namespace hocket::cache
