// XXH3 as the library has it, without a look at the processor.
#include <xxhash.h>

#include <cstddef>
#include <cstdint>

#include "tests/runtime/base/xxh3_plain.hpp"

namespace hocket::test {

std::uint64_t plain_xxh3_64(const void* data, std::size_t bytes) {
    return XXH3_64bits(data, bytes);
}

std::uint64_t plain_xxh3_64(const void* data, std::size_t bytes, std::uint64_t seed) {
    return XXH3_64bits_withSeed(data, bytes, seed);
}

Hash128 plain_xxh3_128(const void* data, std::size_t bytes) {
    const XXH128_hash_t hash = XXH3_128bits(data, bytes);
    return {hash.low64, hash.high64};
}

}  // namespace hocket::test
