// The messages that two PeerServices exchange after the handshake: headers of a fixed size, each followed by
// the bytes that it announces and their checksum. Does no I/O, so that it can be fuzzed.
//
//   question  asker -> answerer   id, key, patience
//   offer     asker -> answerer   id, key, patience; bytes of the sample
//   answer    answerer -> asker   id and key of the question, status; bytes of the sample, or of a text
//
// Integers are little-endian. The header has its own checksum; if that is wrong, the connection ends, because
// the position of the next header is unknown. The bytes, if any, are followed by their checksum, XXH3 with
// the key as seed; if that is wrong, only this message is invalid. Answers may arrive in any order.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/error.hpp"

struct XXH3_state_s;

namespace hocket::cache {

inline constexpr std::uint64_t max_peer_bytes = std::uint64_t{1} << 40;
inline constexpr std::size_t max_peer_text = 1024;  // of a text that says why there is no sample, in bytes
inline constexpr std::size_t max_peer_questions = 1024;  // accepted from one connection and not yet answered
// A piece is read or written at once, and hashed while it is in the processor's cache. After pieces_a_turn
// pieces other connections get their turn.
inline constexpr std::size_t piece_size = 256 * 1024, pieces_a_turn = 4;

enum class PeerMessage : std::uint8_t { question = 1, offer, answer };

struct PeerHeader {
    PeerMessage kind = PeerMessage::question;
    std::uint64_t id = 0;
    std::uint64_t key = 0;
    std::uint64_t bytes = 0;        // bytes behind the header, without their checksum
    std::uint32_t patience_ms = 0;  // how long the asker waits after it has sent this
    Status status = Status::success;
};

inline constexpr std::size_t peer_header_size = 48, peer_checksum_size = 8;
using PeerHeaderBytes = std::array<std::byte, peer_header_size>;

PeerHeaderBytes encode_peer_header(const PeerHeader& header);

// Throws ProtocolError for a header that no PeerService sends.
PeerHeader decode_peer_header(std::span<const std::byte, peer_header_size> bytes);

// The checksum of the bytes behind a header, computed piece by piece.
class PeerChecksum {
  public:
    PeerChecksum();  // throws std::bad_alloc
    ~PeerChecksum();
    PeerChecksum(const PeerChecksum&) = delete;

    void begin(std::uint64_t key);
    void add(std::span<const std::byte> piece);
    std::uint64_t value() const;

  private:
    XXH3_state_s* state_;
};

// Returns the key with which both ends authenticate (handshake.hpp). It is derived from the job's secret, but
// differs from keys for other purposes, so that proofs made for those are useless here.
std::string peer_handshake_key(std::string_view secret);

}  // namespace hocket::cache
