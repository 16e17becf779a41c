#include "runtime/transport/net/handshake.hpp"

#include <sodium.h>

#include <algorithm>

#include "runtime/base/error.hpp"
#include "runtime/base/random.hpp"
#include "runtime/transport/net/transfer.hpp"

namespace hocket::transport {
namespace {

const unsigned char* unsigned_bytes(std::string_view bytes) {
    return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

std::string encode_hello(const Hello& hello) {
    return PayloadWriter()
        .u32(hello.rank)
        .u32(hello.world_size)
        .u32(hello.ciphers)
        .bytes(hello.nonce)
        .bytes(hello.identity)
        .text();
}

Hello decode_hello(std::string_view payload) {
    PayloadReader reader(payload);
    Hello hello;
    hello.rank = reader.u32();
    hello.world_size = reader.u32();
    hello.ciphers = reader.u32();
    hello.nonce = reader.bytes(nonce_size);
    hello.identity = reader.rest();
    if (hello.identity.size() > max_identity_size) throw ProtocolError("it sent a message that is too long");
    return hello;
}

std::string fresh_nonce() {
    return random_bytes(nonce_size);
}

std::string make_proof(std::string_view secret, Side side, const Hello& hello, std::string_view challenge) {
    // All fields but the last have a fixed length if the ciphers are given, so no two different inputs give
    // the same bytes.
    const std::string_view label =
        side == Side::guest ? "hocket handshake 3 guest" : "hocket handshake 3 host ";
    const std::string message = PayloadWriter()
                                    .bytes(label)
                                    .u32(hello.ciphers)
                                    .bytes(hello.nonce)
                                    .bytes(challenge)
                                    .u32(hello.rank)
                                    .u32(hello.world_size)
                                    .bytes(hello.identity)
                                    .text();
    // sodium_init() initialises libsodium's random numbers and its choice of code by processor, neither of
    // which this function uses.
    static_assert(proof_size == crypto_auth_hmacsha256_BYTES);
    std::string proof(proof_size, '\0');
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, unsigned_bytes(secret), secret.size());
    crypto_auth_hmacsha256_update(&state, unsigned_bytes(message), message.size());
    crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(proof.data()));
    sodium_memzero(&state, sizeof state);  // the state derived from the secret
    return proof;
}

bool same_proof(std::string_view a, std::string_view b) {
    return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string encode_challenge(std::string_view nonce, Cipher cipher) {
    PayloadWriter writer;
    writer.bytes(nonce);
    if (cipher != Cipher::none) writer.u32(static_cast<std::uint32_t>(cipher));
    return writer.text();
}

Challenge decode_challenge(std::string_view payload, const Hello& hello) {
    const bool is_sealed = hello.ciphers != 0;
    if (payload.size() != nonce_size + (is_sealed ? sizeof(std::uint32_t) : 0))
        throw ProtocolError("it sent a challenge of the wrong size");
    PayloadReader reader(payload);
    Challenge challenge{std::string(reader.bytes(nonce_size)), Cipher::none};
    if (!is_sealed) return challenge;
    const std::uint32_t chosen = reader.u32();
    if (chosen == 0 || chosen > 31 || (hello.ciphers >> chosen & 1) == 0)
        throw ProtocolError("it chose a cipher that it was not offered");
    challenge.cipher = static_cast<Cipher>(chosen);
    return challenge;
}

void seal(Socket& socket, Side side, Cipher cipher, std::string_view secret, const KeyHalves& own,
          const Hello& hello, std::string_view challenge) {
    const std::string_view theirs =
        side == Side::guest ? challenge.substr(0, nonce_size) : std::string_view(hello.nonce);
    const std::optional<ConnectionKeys> keys =
        agree_on_keys(secret, own, theirs, encode_hello(hello) + std::string(challenge));
    if (!keys) throw ProtocolError("it sent a nonce that is no key");
    const bool is_guest = side == Side::guest;
    socket.seal(std::make_unique<SealedBytes>(cipher, is_guest ? keys->from_guest : keys->from_host,
                                              is_guest ? keys->from_host : keys->from_guest));
}

std::optional<Frame> take_frame(const Socket& socket, FrameParser& parser) {
    for (;;) {
        if (auto frame = parser.next()) return frame;
        char bytes[512];
        const Transfer transfer =
            receive_some(socket, std::span(bytes).first(std::min(sizeof bytes, parser.missing())));
        if (transfer.has_ended) throw HungUp();
        if (transfer.bytes == 0) return std::nullopt;
        parser.feed({bytes, transfer.bytes});
    }
}

}  // namespace hocket::transport
