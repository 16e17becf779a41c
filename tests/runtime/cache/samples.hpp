// Samples whose bytes follow from their keys, so that a reader can check them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "tests/support/temporary_folder.hpp"

namespace hocket::test {

inline std::uint64_t mixed(std::uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// version: other bytes and another size.
inline std::vector<std::byte> sample_bytes(std::uint64_t key, std::uint64_t most, std::uint64_t version = 0) {
    const std::uint64_t seed = mixed(key ^ (version << 48));
    std::vector<std::byte> bytes(seed % (most + 1));
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(mixed(seed + i / 8) >> (i % 8 * 8));
    return bytes;
}

inline bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace hocket::test
