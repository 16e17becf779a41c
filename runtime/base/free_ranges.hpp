// The free parts of a range of offsets: best fit, neighbours merged. Handles offsets only and touches no
// memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace hocket {

// Not thread-safe.
class FreeRanges {
  public:
    // All of [begin, end) is free.
    FreeRanges(std::uint64_t begin, std::uint64_t end);

    // Allocates `bytes` (not 0) at a multiple of `alignment`, a power of two, from the smallest free range
    // with room for them; of several such ranges, from the first. Returns nothing if no range has room.
    std::optional<std::uint64_t> allocate(std::uint64_t bytes, std::uint64_t alignment);

    // Releases any part of an allocated range; not 0 bytes.
    void release(std::uint64_t offset, std::uint64_t bytes);

    std::uint64_t free_bytes() const { return free_bytes_; }
    std::uint64_t largest() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }  // in one piece

  private:
    void insert(std::uint64_t offset, std::uint64_t bytes);
    void erase(std::map<std::uint64_t, std::uint64_t>::iterator range);

    std::map<std::uint64_t, std::uint64_t> by_offset_;           // offset -> bytes
    std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (bytes, offset): the same ranges
    std::uint64_t free_bytes_ = 0;
};

}  // namespace hocket
