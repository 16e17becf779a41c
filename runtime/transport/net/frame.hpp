// The wire format of handshakes and of the bootstrap: frames of a fixed header (magic, version, type, payload
// length) and a payload, integers little-endian. It converts bytes to frames without sockets, so that it can
// be fuzzed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace hocket::transport {

enum class FrameType : std::uint8_t {
    // handshakes (handshake.hpp)
    hello = 1,  // guest: rank, world size, nonce, identity
    challenge,  // host: nonce
    proof,      // guest: HMAC
    welcome,    // host: HMAC
    refused,    // host: text
    // joining
    ready,    // guest: it has everything that it needs
    waiting,  // host: text naming the ranks that are missing
    placed,   // host, to a newcomer: its rank, world size, ms left for joining
    start,    // host: all have joined and are ready
    abort,    // both: status, text; the job will not start
    // members
    heartbeat,
    goodbye,
    gather,     // to rank 0: number, blob
    gathered,   // from rank 0: number, rank, blob
    lost,       // rank, reason; to rank 0, from a guest that has given rank 0 up: 0, reason
    left,       // from rank 0: one rank or several
    report,     // to rank 0: text
    reported,   // from rank 0: rank, text
    come,       // to rank 0: the number of the rendezvous that the rank has come to
    met,        // from rank 0: the number of the last rendezvous that all have come to
    roll_call,  // to rank 0: the number of a rendezvous
    absent,     // from rank 0: the number; the ranks that have not come to it
    waits,      // to rank 0: the number of the operation in which the rank waits
    asks,       // from rank 0: the number of an operation
    tells,      // to rank 0: an account of it (comparison.hpp)
    told,       // from rank 0: rank, number, and the rank's idleness in that operation (comparison.hpp)
    differ,     // from rank 0: the different operations of the ranks (comparison.hpp)
    last_ = differ,
};

struct Frame {
    FrameType type;
    std::string payload;
};

inline constexpr std::size_t frame_header_size = 12;
inline constexpr std::size_t max_blob_size = 1 << 20;
inline constexpr std::size_t max_member_payload = max_blob_size + 8;  // plus a number and a rank
inline constexpr std::size_t max_refusal_payload = 1024;              // a guest's limit for its host

// The peer does not speak this protocol, or breaks it.
struct ProtocolError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

std::string encode_frame(FrameType type, std::string_view payload);

// Collects bytes and yields whole frames. Memory grows with the bytes that arrived, never with a length that
// a header announces; a frame longer than the limit is refused as soon as its header is complete.
class FrameParser {
  public:
    explicit FrameParser(std::size_t max_payload) : max_payload_(max_payload) {}

    void set_limit(std::size_t max_payload) { max_payload_ = max_payload; }
    void feed(std::string_view bytes);
    std::optional<Frame> next();  // throws ProtocolError

    // Returns the least number of bytes that are missing up to the end of the next frame. Call when next()
    // has found none.
    std::size_t missing() const;

  private:
    std::size_t max_payload_;
    std::string buffer_;
    std::size_t consumed_ = 0;
};

// Payloads are written and read field by field.
class PayloadWriter {
  public:
    PayloadWriter& u32(std::uint32_t value);
    PayloadWriter& u64(std::uint64_t value);
    PayloadWriter& bytes(std::string_view value);
    PayloadWriter& text_of(std::string_view value);  // its length, then its bytes
    const std::string& text() const { return text_; }

  private:
    std::string text_;
};

class PayloadReader {
  public:
    explicit PayloadReader(std::string_view payload) : rest_(payload) {}

    std::uint32_t u32();  // throws ProtocolError if the payload is too short
    std::uint64_t u64();  // throws as u32()
    std::string_view bytes(std::size_t count);
    std::string_view text_of();
    std::string_view rest();  // all remaining bytes
    bool is_empty() const { return rest_.empty(); }
    void finish() const;  // throws ProtocolError if bytes remain

  private:
    std::string_view rest_;
};

}  // namespace hocket::transport
