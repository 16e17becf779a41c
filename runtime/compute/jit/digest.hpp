// Digests of code for devices, and of its keys.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "runtime/base/xxh3.hpp"

namespace hocket::jit {

// Returns 32 hexadecimal digits.
inline std::string digest_of(std::string_view text) {
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace hocket::jit
