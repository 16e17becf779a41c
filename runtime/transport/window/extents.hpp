// The division of a process's shared memory into extents. Its file is so large that offsets never run out,
// because offsets cost nothing; addresses do (ulimit -v counts them). So each extent of the file is mapped
// separately, when it is first used. Owner and peers know the division, so an offset alone determines the
// extent to map.
//
// The first two extents have 32 MiB, and each one after them has as much as all before it, so there are few.
// The mapped memory is mostly less than twice the used memory. It is up to four times as large for growing
// blocks that are each a little larger than an extent: none of them fits in the place of the previous one.
#pragma once

#include <bit>
#include <cstdint>

namespace hocket::transport {

// Offsets in the file; the end is exclusive.
struct Extent {
    std::uint64_t begin, end;
    std::uint64_t bytes() const { return end - begin; }
};

inline constexpr std::uint64_t first_extent_bytes = 32 << 20;
inline constexpr unsigned most_extents = 22;
inline constexpr std::uint64_t most_window_bytes = first_extent_bytes << (most_extents - 1);  // 64 TiB

// Returns the number of the extent that contains an offset.
constexpr unsigned extent_of(std::uint64_t offset) {
    return static_cast<unsigned>(std::bit_width(offset / first_extent_bytes));
}

// number: less than most_extents.
constexpr Extent extent(unsigned number) {
    return {number == 0 ? 0 : first_extent_bytes << (number - 1), first_extent_bytes << number};
}

}  // namespace hocket::transport
