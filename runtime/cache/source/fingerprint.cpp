#include "runtime/cache/source/fingerprint.hpp"

#include <bit>
#include <new>

namespace hocket::cache {

static_assert(std::endian::native == std::endian::little, "numbers are hashed as they lie in memory");

Fingerprint::Fingerprint(std::string_view kind) : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
    add(kind);
}

void Fingerprint::add(std::string_view text) {
    add(std::uint64_t{text.size()});
    XXH3_128bits_update(state_.get(), text.data(), text.size());
}

void Fingerprint::add(std::uint64_t number) {
    XXH3_128bits_update(state_.get(), &number, sizeof number);
}

Digest Fingerprint::digest() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return {hash.low64, hash.high64};
}

}  // namespace hocket::cache
