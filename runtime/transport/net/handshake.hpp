// Two processes prove to each other that they know a secret without sending it, in frames:
//
//   guest -> host  hello      rank, world size, ciphers, nonce g, identity
//   host -> guest  challenge  nonce h, and if ciphers were offered, the cipher chosen
//   guest -> host  proof      HMAC-SHA256(secret, "guest", ciphers, g, challenge, rank, world size, identity)
//   host -> guest  welcome    HMAC-SHA256(secret, "host",  ciphers, g, challenge, rank, world size, identity)
//                  refused    why; it may come instead of any of the host's frames
//
// The guest sends its proof first, so a stranger that merely connects learns nothing that depends on the
// secret. With HOCKET_ENCRYPTION=on the guest offers ciphers, g and h are halves of an X25519 key
// (sealing.hpp), and all bytes after the welcome are encrypted. Otherwise the secret keeps strangers out, not
// eavesdroppers. admission.hpp is the host's side, dial.hpp the guest's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/transport/net/frame.hpp"
#include "runtime/transport/net/sealing.hpp"
#include "runtime/transport/net/socket.hpp"

namespace hocket::transport {

inline constexpr std::size_t nonce_size = 32, proof_size = 32;
inline constexpr std::size_t max_identity_size = 256;
inline constexpr std::size_t max_hello_size = 12 + nonce_size + max_identity_size;

// The rank of a guest that has none yet.
inline constexpr std::uint32_t rank_of_newcomers = UINT32_MAX;

// A guest's description of itself.
struct Hello {
    std::uint32_t rank;
    std::uint32_t world_size;
    std::string nonce;
    std::string identity = {};  // interpreted by the host; at most max_identity_size bytes
    std::uint32_t ciphers = 0;  // a set as in sealing.hpp; 0: the connection is not to be encrypted
};

std::string encode_hello(const Hello& hello);
Hello decode_hello(std::string_view payload);  // throws ProtocolError

std::string fresh_nonce();

enum class Side { guest, host };
// challenge: the payload of the frame.
std::string make_proof(std::string_view secret, Side side, const Hello& hello, std::string_view challenge);

// The host's answer to a hello, and the way back.
std::string encode_challenge(std::string_view nonce, Cipher cipher);
struct Challenge {
    std::string nonce;
    Cipher cipher;
};
// Throws ProtocolError also for a cipher that the hello has not offered.
Challenge decode_challenge(std::string_view payload, const Hello& hello);

// Encrypts what follows a handshake. Throws ProtocolError if the peer's nonce is no key.
void seal(Socket& socket, Side side, Cipher cipher, std::string_view secret, const KeyHalves& own,
          const Hello& hello, std::string_view challenge);

// Compares proofs in constant time.
bool same_proof(std::string_view a, std::string_view b);

// The process at the other end, or its kernel, has closed the connection.
struct HungUp {};

// Takes the next frame, and no byte after it, because the bytes after a handshake are for other code. Returns
// nullopt if the frame is not complete. Throws ProtocolError, HungUp.
std::optional<Frame> take_frame(const Socket& socket, FrameParser& parser);

}  // namespace hocket::transport
