// The oracle of runtime/base/xxh3.hpp. In a file of its own, since that renames the library's functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace hocket::test {

using Hash128 = std::pair<std::uint64_t, std::uint64_t>;  // low, high

std::uint64_t plain_xxh3_64(const void* data, std::size_t bytes);
std::uint64_t plain_xxh3_64(const void* data, std::size_t bytes, std::uint64_t seed);
Hash128 plain_xxh3_128(const void* data, std::size_t bytes);

}  // namespace hocket::test
