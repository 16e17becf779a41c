// The memory for samples and for data in transit: one mapping of fixed size, divided into blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "runtime/base/free_ranges.hpp"

namespace hocket::cache {

// Memory of the arena. Aligned to 512 bytes, or to 64 if it is smaller than 512; bytes is rounded up to a
// multiple of the same.
struct Block {
    std::byte* data = nullptr;
    std::uint64_t bytes = 0;
};

// Not thread-safe. Does not touch the memory: the system provides a page when it is first written.
class Arena {
  public:
    // bytes: rounded down to a page. Throws Error: invalid_argument (less than a page), out_of_memory.
    explicit Arena(std::uint64_t bytes);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // Returns the size of a block for this many bytes, at least 64. bytes: at most the arena's size.
    static constexpr std::uint64_t rounded(std::uint64_t bytes) {
        const std::uint64_t unit = unit_of(bytes);
        return bytes == 0 ? unit : (bytes + unit - 1) / unit * unit;
    }

    // Returns nothing if no free range is large enough.
    std::optional<Block> allocate(std::uint64_t bytes);
    void release(const Block& block);
    void shrink(Block& block, std::uint64_t bytes);  // frees the block's tail, which is not empty

    std::span<std::byte> memory() const { return {base_, bytes_}; }
    std::uint64_t used() const { return bytes_ - free_.free_bytes(); }

  private:
    static constexpr std::uint64_t unit_of(std::uint64_t bytes) { return bytes > 512 - 64 ? 512 : 64; }

    std::uint64_t bytes_;
    std::byte* base_;
    FreeRanges free_;
};

}  // namespace hocket::cache
