// Encodes and decodes the format of a checkpoint's file. Does no I/O, so that it can be fuzzed. All integers
// are little-endian.
//
//   0    prologue, 36 bytes: magic, version, bytes of the header, checksum of the header, checksum of the
//        prologue before it
//   36   header: incarnation, members with their first rounds, job; for each chunk its clock, the
//        checksum of its elements, and the bytes of each of its buffers
//        elements: the buffers of all chunks, one after another, up to the end of the file
//
// The header has the checksums of all chunks, and the prologue has the header's. So elements that belong to
// another chunk or another file are detected, as damaged ones are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/params/checkpoint/checkpoint.hpp"

namespace hocket::params {

inline constexpr std::uint32_t checkpoint_version = 2;
inline constexpr std::size_t prologue_bytes = 36;

// Returns the prologue and the header. Reads all elements to compute their checksums.
std::string encode_header(const Checkpoint& checkpoint);

struct Prologue {
    std::uint64_t header_bytes, header_checksum;
};

// The decoded header.
struct CheckpointLayout {
    Checkpoint contents;  // without buffers
    struct Chunk {
        std::uint64_t checksum;
        std::vector<std::uint64_t> buffers;  // the size of each, in bytes
    };
    std::vector<Chunk> chunks;
};

// bytes: the beginning of the file, prologue_bytes long, or the whole file if it is shorter. file_bytes: the
// size of the whole file; no size in a result is larger. Both functions throw transport::ProtocolError.
Prologue decode_prologue(std::string_view bytes, std::uint64_t file_bytes);
CheckpointLayout decode_header(const Prologue& prologue, std::string_view header, std::uint64_t file_bytes);

// Returns the checksum of a chunk's elements, computed piece by piece: so_far is the result for the pieces
// before this one, 0 for the first.
std::uint64_t checksum(std::uint64_t so_far, std::span<const std::byte> piece);

// Calls `action` for each piece of a buffer. A piece fits into a processor's cache.
template <typename Byte, typename Action>
void for_each_piece(std::span<Byte> buffer, Action action) {
    constexpr std::size_t piece_bytes = 1 << 20;
    for (std::size_t at = 0; at < buffer.size(); at += piece_bytes)
        action(buffer.subspan(at, std::min(piece_bytes, buffer.size() - at)));
}

}  // namespace hocket::params
