// Copies large blocks of memory at full speed on all processors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace hocket::params {

// Copies like memcpy(3), but at the same speed for any alignment. Blocks begin at a page, and memory from
// malloc(3) 16 bytes into one, so one is often a few bytes ahead of the other, modulo the page size:
// - Source ahead: `rep movsb`, which the C library uses from about 4 KiB on, takes three times as long on
// some
//   processors (AMD Zen 3). So the copy is divided into strips for which it uses other instructions.
// - Destination ahead: those instructions take three times as long (AMD Zen 4), because each load seems to
//   depend on a store just before it. `rep movsb` does not.
inline void copy_bytes(std::byte* to, const std::byte* from, std::uint64_t bytes) {
    constexpr std::uint64_t page = 4096, strip = 2048;
    const std::uint64_t ahead =
        (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % page;
    const std::uint64_t step = ahead > 0 && ahead < page / 2 ? bytes : strip;
    for (std::uint64_t at = 0; at < bytes; at += step)
        std::memcpy(to + at, from + at, std::min(step, bytes - at));
}

}  // namespace hocket::params
