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
        .bytes(hello.nonce)
        .bytes(hello.identity)
        .text();
}

Hello decode_hello(std::string_view payload) {
    PayloadReader reader(payload);
    Hello hello;
    hello.rank = reader.u32();
    hello.world_size = reader.u32();
    hello.nonce = reader.bytes(nonce_size);
    hello.identity = reader.rest();
    if (hello.identity.size() > max_identity_size) throw ProtocolError("it sent a message that is too long");
    return hello;
}

std::string fresh_nonce() {
    return random_bytes(nonce_size);
}

std::string make_proof(std::string_view secret, Side side, const Hello& hello, std::string_view host_nonce) {
    // All fields but the last have a fixed length, so no two different inputs give the same bytes.
    const std::string_view label =
        side == Side::guest ? "hocket handshake 2 guest" : "hocket handshake 2 host ";
    const std::string message = PayloadWriter()
                                    .bytes(label)
                                    .bytes(hello.nonce)
                                    .bytes(host_nonce)
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

std::optional<Frame> take_frame(const Socket& socket, FrameParser& parser) {
    for (;;) {
        if (auto frame = parser.next()) return frame;
        char bytes[512];
        const Transfer transfer =
            receive_some(socket.fd(), std::span(bytes).first(std::min(sizeof bytes, parser.missing())));
        if (transfer.has_ended) throw HungUp();
        if (transfer.bytes == 0) return std::nullopt;
        parser.feed({bytes, transfer.bytes});
    }
}

}  // namespace hocket::transport
