// Copies of many bytes, alike on all processors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace hocket::params {

// As memcpy(3), at the same speed wherever the two lie. From some 4 KiB on the C library takes `rep movsb`,
// and AMD's Zen 3 and later need three times as long for that where the destination begins a few bytes behind
// the source, modulo the size of a page: as memory from malloc(3) does, 16 bytes behind the beginning of a
// page, where a block that is copied into it begins on one.
inline void copy_bytes(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    constexpr std::uint64_t strip = 2048;
    for (std::uint64_t at = 0; at < bytes; at += strip)
        std::memcpy(to + at, from + at, std::min(strip, bytes - at));
}

}  // namespace hocket::params
