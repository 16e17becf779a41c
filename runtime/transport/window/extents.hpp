// How the memory that a process shows is divided. Its file is so large that offsets never run out, since they
// cost nothing; addresses do (ulimit -v counts them). So each extent of the file is mapped by itself, when it
// is first used. Owner and peers know the division, so that an offset alone tells what is to be mapped.
//
// The first two extents have 32 MiB, and each one behind them has as much as all before it. So there are few.
// What is mapped is mostly less than twice what is used. Blocks that grow, and of which each is a little
// larger than an extent, leave it four times as large: none of them fits where the one before was.
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

// The number of the extent in which an offset lies.
constexpr unsigned extent_of(std::uint64_t offset) {
    return static_cast<unsigned>(std::bit_width(offset / first_extent_bytes));
}

// number: less than most_extents.
constexpr Extent extent(unsigned number) {
    return {number == 0 ? 0 : first_extent_bytes << (number - 1), first_extent_bytes << number};
}

}  // namespace hocket::transport
