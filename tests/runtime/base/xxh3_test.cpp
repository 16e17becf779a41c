// Compares the fastest code path of this processor with the portable one: processors exchange files and
// messages, so the hashes must be equal.
#include "runtime/base/xxh3.hpp"

#include <memory>
#include <random>
#include <span>
#include <vector>

#include "runtime/cache/peers/protocol.hpp"
#include "tests/runtime/base/xxh3_plain.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using test::Hash128;

namespace {

struct Freed {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

// As Fingerprint does it, in pieces of any length.
Hash128 in_pieces(const unsigned char* data, std::size_t bytes, std::mt19937_64& random) {
    const std::unique_ptr<XXH3_state_t, Freed> state(XXH3_createState());
    XXH3_128bits_reset(state.get());
    for (std::size_t at = 0; at < bytes;) {
        const std::size_t piece = std::min<std::size_t>(bytes - at, random() % 700);
        XXH3_128bits_update(state.get(), data + at, piece);
        at += piece;
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
    return {hash.low64, hash.high64};
}

// As a peer's message comes in.
std::uint64_t of_message(std::uint64_t key, const unsigned char* data, std::size_t bytes,
                         std::mt19937_64& random) {
    cache::PeerChecksum checksum;
    checksum.begin(~key);  // the state of an earlier message must not show
    checksum.add(std::as_bytes(std::span(data, bytes / 2)));
    checksum.begin(key);
    for (std::size_t at = 0; at < bytes;) {
        const std::size_t piece = std::min<std::size_t>(bytes - at, random() % 700);
        checksum.add(std::as_bytes(std::span(data + at, piece)));
        at += piece;
    }
    return checksum.value();
}

}  // namespace

TEST_CASE("checksums are those of the plain functions, at every length and alignment") {
    std::mt19937_64 random(5);
    std::vector<unsigned char> data(300'000);
    for (unsigned char& byte : data) byte = static_cast<unsigned char>(random());
    std::vector<std::size_t> lengths{4095, 4096, 4097, 65'536, 262'143, 299'900};
    for (std::size_t length = 0; length <= 2100; ++length) lengths.push_back(length);
    for (const std::size_t bytes : lengths) {
        const unsigned char* begin = data.data() + random() % 70;
        const std::uint64_t seed = random();
        INFO(bytes << " bytes");
        REQUIRE(XXH3_64bits(begin, bytes) == test::plain_xxh3_64(begin, bytes));
        REQUIRE(XXH3_64bits_withSeed(begin, bytes, seed) == test::plain_xxh3_64(begin, bytes, seed));
        REQUIRE(of_message(seed, begin, bytes, random) == test::plain_xxh3_64(begin, bytes, seed));
        REQUIRE(in_pieces(begin, bytes, random) == test::plain_xxh3_128(begin, bytes));
    }
}
