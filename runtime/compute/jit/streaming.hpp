// Decides when a kernel writes past the caches.
//
// A streaming store sends a whole cache line to memory without reading the line first. This halves the
// traffic of writes, and does not evict lines from a neighbour's cache, but the next reader finds the result
// only in memory. Streaming pays if the data would not have stayed in the core's own cache.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hocket::jit {

// Returns the fewest bytes per area for which an operation with these numbers of operands and destinations
// streams.
std::uint64_t least_streamed_bytes(std::uint64_t operands, std::uint64_t destinations);

inline constexpr std::uint64_t no_streaming = ~std::uint64_t{0};

// Decides for one operation, when it is called. Returns the bytes (less than a cache line) after which all
// destinations are at the beginning of a cache line. Returns no_streaming if the operation is too small; if
// the destinations reach the beginnings of lines at different offsets, or never at a whole element; or if a
// destination is also an operand of a combine, because its lines have just been read. (A copy skips a
// destination that is its source.) area_ids: the destinations', then the operands'.
std::uint64_t streaming_head(const std::byte* const* areas, const std::uint32_t* area_ids,
                             std::uint64_t operands, std::uint64_t destinations, std::uint64_t begin,
                             std::uint64_t bytes, std::uint64_t element_size);

}  // namespace hocket::jit
