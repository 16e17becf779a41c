// What two PeerServices send each other once they have shaken hands: headers of a fixed size, each with the
// bytes that it announces and their checksum behind it. Pure: bytes in, facts out, so that it can be fuzzed.
//
//   question  asker -> answerer   id, key, patience
//   offer     asker -> answerer   id, key, patience; bytes of the sample
//   answer    answerer -> asker   id and key of what it answers, status; bytes of the sample, or of a text
//
// Integers are little-endian. The header has a checksum of its own: one that is wrong ends the connection,
// for then nobody knows where the next header lies. Behind bytes (if there are any) follows their checksum,
// XXH3 with the key for a seed: one that is wrong spoils that message alone. Answers come in any order.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/error.hpp"

struct XXH3_state_s;

namespace hocket::cache {

inline constexpr std::uint64_t max_peer_bytes = std::uint64_t{1} << 40;
inline constexpr std::size_t max_peer_text = 1024;       // bytes of an answer that is none
inline constexpr std::size_t max_peer_questions = 1024;  // taken from one connection and not yet answered

enum class PeerMessage : std::uint8_t { question = 1, offer, answer };

struct PeerHeader {
    PeerMessage kind = PeerMessage::question;
    std::uint64_t id = 0;
    std::uint64_t key = 0;
    std::uint64_t bytes = 0;        // behind the header, without their checksum
    std::uint32_t patience_ms = 0;  // of the asker, from when it sent this: later nobody wants the answer
    Status status = Status::success;
};

inline constexpr std::size_t peer_header_size = 48, peer_checksum_size = 8;
using PeerHeaderBytes = std::array<std::byte, peer_header_size>;

PeerHeaderBytes encode_peer_header(const PeerHeader& header);

// Throws ProtocolError if no PeerService sends such a header.
PeerHeader decode_peer_header(std::span<const std::byte, peer_header_size> bytes);

// Of the bytes behind a header, which come in pieces.
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

// With which both ends prove themselves (handshake.hpp): the job's secret, but of no use to whoever has seen
// proofs that were made for something else.
std::string peer_handshake_key(std::string_view secret);

}  // namespace hocket::cache
