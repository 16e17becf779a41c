#include "runtime/cache/peers/protocol.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <new>

#include "runtime/base/xxh3.hpp"
#include "runtime/transport/net/frame.hpp"

namespace hocket::cache {
namespace {

static_assert(std::endian::native == std::endian::little, "headers travel as they lie in memory");

constexpr std::array<char, 4> magic{'H', 'K', 'T', 'P'};
constexpr std::uint8_t version = 1;

struct Wire {
    std::array<char, 4> magic;
    std::uint8_t version, kind;
    std::uint16_t reserved;
    std::uint64_t id, key, bytes;
    std::uint32_t patience_ms;
    std::int32_t status;
    std::uint64_t checksum;
};
static_assert(sizeof(Wire) == peer_header_size);

std::uint64_t checksum_on_wire(const Wire& wire) {
    return XXH3_64bits(&wire, offsetof(Wire, checksum));
}

bool is_answer_status(std::int32_t status) {
    return status == static_cast<int>(Status::success) || (status < 0 && status >= lowest_status);
}

// Checks the rules for each kind of header. A PeerService keeps all of them.
bool is_sound(const Wire& wire) {
    if (wire.reserved != 0 || wire.bytes > max_peer_bytes) return false;
    switch (static_cast<PeerMessage>(wire.kind)) {
        case PeerMessage::question:
            return wire.bytes == 0 && wire.status == 0;
        case PeerMessage::offer:
            return wire.status == 0;
        case PeerMessage::answer:
            return wire.patience_ms == 0 && is_answer_status(wire.status) &&
                   (wire.status == 0 || wire.bytes <= max_peer_text);
    }
    return false;
}

}  // namespace

PeerHeaderBytes encode_peer_header(const PeerHeader& header) {
    Wire wire{magic,
              version,
              static_cast<std::uint8_t>(header.kind),
              0,
              header.id,
              header.key,
              header.bytes,
              header.patience_ms,
              static_cast<std::int32_t>(header.status),
              0};
    wire.checksum = checksum_on_wire(wire);
    return std::bit_cast<PeerHeaderBytes>(wire);
}

PeerHeader decode_peer_header(std::span<const std::byte, peer_header_size> bytes) {
    Wire wire;
    std::memcpy(&wire, bytes.data(), sizeof wire);
    if (wire.magic != magic)
        throw transport::ProtocolError("it does not speak the protocol of Hocket's peers");
    if (wire.version != version)
        throw transport::ProtocolError(
            fmt::format("it speaks version {} of the peers' protocol, this process version {}; "
                        "do all run the same Hocket?",
                        wire.version, version));
    if (wire.checksum != checksum_on_wire(wire))
        throw transport::ProtocolError("it sent a header with a wrong checksum");
    if (!is_sound(wire)) throw transport::ProtocolError("it sent a header that makes no sense");
    return {static_cast<PeerMessage>(wire.kind), wire.id, wire.key, wire.bytes, wire.patience_ms,
            static_cast<Status>(wire.status)};
}

PeerChecksum::PeerChecksum() : state_(XXH3_createState()) {
    if (state_ == nullptr) throw std::bad_alloc();
}

PeerChecksum::~PeerChecksum() {
    XXH3_freeState(state_);
}

void PeerChecksum::begin(std::uint64_t key) {
    XXH3_64bits_reset_withSeed(state_, key);
}

void PeerChecksum::add(std::span<const std::byte> piece) {
    XXH3_64bits_update(state_, piece.data(), piece.size());
}

std::uint64_t PeerChecksum::value() const {
    return XXH3_64bits_digest(state_);
}

std::string peer_handshake_key(std::string_view secret) {
    return "hocket peers 1 " + std::string(secret);
}

}  // namespace hocket::cache
