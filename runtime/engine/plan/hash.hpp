// Mixes numbers into one, well enough to tell different operations apart.
#pragma once

#include <cstdint>

namespace hocket::engine {

// splitmix64's finaliser over the running value: the order matters, and every bit spreads.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    std::uint64_t z = (hash ^ value) + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

}  // namespace hocket::engine
