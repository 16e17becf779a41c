// How two processes prove to each other that they know the job's secret without sending it:
//
//   guest -> host  hello      rank, world size, nonce g
//   host -> guest  challenge  nonce h
//   guest -> host  proof      HMAC-SHA256(secret, "guest", g, h, rank, world size)
//   host -> guest  welcome    HMAC-SHA256(secret, "host",  g, h, rank, world size)
//
// The guest proves first, so that whoever merely connects learns nothing that depends on the secret. The
// connection itself is not encrypted: the secret keeps strangers out, not eavesdroppers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hocket::transport {

inline constexpr std::size_t nonce_size = 32, proof_size = 32;

struct Hello {
    std::uint32_t rank;
    std::uint32_t world_size;
    std::string nonce;
};

std::string encode_hello(const Hello& hello);
Hello decode_hello(std::string_view payload);  // throws ProtocolError

std::string fresh_nonce();

enum class Side { guest, host };
std::string make_proof(std::string_view secret, Side side, const Hello& hello, std::string_view host_nonce);

// In constant time.
bool same_proof(std::string_view a, std::string_view b);

}  // namespace hocket::transport
