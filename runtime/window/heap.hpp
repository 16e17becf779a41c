// Allocates ranges of a slice. It knows offsets only and touches no memory, so no peer can corrupt it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "runtime/free_ranges.hpp"

namespace hocket::transport {

// Thread-safe.
class WindowHeap {
  public:
    // [begin, end): the range to allocate from; both are multiples of 64. discard(offset, bytes) is called
    // for blocks of 1 MiB and more (whole pages) that are released, before they can be allocated again.
    WindowHeap(std::uint64_t begin, std::uint64_t end,
               std::function<void(std::uint64_t, std::uint64_t)> discard);

    // A block of a page or more begins on a page and takes whole pages; a smaller one begins on a multiple of
    // 64. alignment: of the offset, a power of two. Nothing if there is no room.
    std::optional<std::uint64_t> allocate(std::uint64_t bytes, std::uint64_t alignment);

    // False if no block begins there.
    bool release(std::uint64_t offset);

    // Blocks that are released from now on are not used again.
    void quarantine();

    std::uint64_t free_bytes() const;

  private:
    const std::function<void(std::uint64_t, std::uint64_t)> discard_;
    mutable std::mutex mutex_;
    std::map<std::uint64_t, std::uint64_t> blocks_;  // offset -> bytes
    FreeRanges free_;
    bool quarantined_ = false;
};

}  // namespace hocket::transport
