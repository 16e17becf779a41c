#include "runtime/params/checkpoint/header.hpp"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "runtime/base/xxh3.hpp"
#include "runtime/transport/net/frame.hpp"

namespace hocket::params {
namespace {

using transport::PayloadReader;
using transport::PayloadWriter;
using transport::ProtocolError;

constexpr std::string_view header_magic = "hktparam";

void put_u64(PayloadWriter& out, std::uint64_t value) {
    out.u32(static_cast<std::uint32_t>(value)).u32(static_cast<std::uint32_t>(value >> 32));
}

std::uint64_t take_u64(PayloadReader& in) {
    const std::uint64_t low = in.u32();
    return low | std::uint64_t{in.u32()} << 32;
}

std::uint64_t checksum_of(std::string_view text) {
    return XXH3_64bits(text.data(), text.size());
}

std::uint64_t checksum_of(const CheckpointChunk& chunk) {
    std::uint64_t so_far = 0;
    for (const auto buffer : chunk.buffers)
        for_each_piece(buffer, [&](std::span<const std::byte> piece) { so_far = checksum(so_far, piece); });
    return so_far;
}

std::string encode_prologue(std::string_view header) {
    PayloadWriter out;
    out.bytes(header_magic).u32(checkpoint_version);
    put_u64(out, header.size());
    put_u64(out, checksum_of(header));
    put_u64(out, checksum_of(out.text()));
    return out.text();
}

std::map<Worker, Clock> read_firsts(PayloadReader& in) {
    std::map<Worker, Clock> firsts;
    for (std::uint32_t left = in.u32(); left > 0; --left) {
        const Worker worker = in.u32();
        if (worker == the_server || (!firsts.empty() && worker <= firsts.rbegin()->first))
            throw ProtocolError("its workers are not in order");
        firsts.emplace_hint(firsts.end(), worker, take_u64(in));
    }
    return firsts;
}

// Reads a chunk's header. Subtracts the bytes of its buffers from `left`, the rest of the file.
CheckpointLayout::Chunk read_chunk_header(PayloadReader& in, std::uint64_t& left) {
    CheckpointLayout::Chunk chunk{take_u64(in), {}};
    for (std::uint32_t buffers = in.u32(); buffers > 0; --buffers) {
        const std::uint64_t bytes = take_u64(in);
        if (bytes > left) throw ProtocolError("it has been cut off: elements are missing at its end");
        left -= bytes;
        chunk.buffers.push_back(bytes);
    }
    return chunk;
}

}  // namespace

std::uint64_t checksum(std::uint64_t so_far, std::span<const std::byte> piece) {
    return XXH3_64bits_withSeed(piece.data(), piece.size(), so_far);
}

std::string encode_header(const Checkpoint& checkpoint) {
    PayloadWriter out;
    out.u32(checkpoint.incarnation);
    out.u32(static_cast<std::uint32_t>(checkpoint.firsts.size()));
    for (const auto& [worker, first] : checkpoint.firsts) put_u64(out.u32(worker), first);
    out.u32(static_cast<std::uint32_t>(checkpoint.job.size())).bytes(checkpoint.job);
    out.u32(static_cast<std::uint32_t>(checkpoint.chunks.size()));
    for (const CheckpointChunk& chunk : checkpoint.chunks) {
        put_u64(out, chunk.clock);
        put_u64(out, checksum_of(chunk));
        out.u32(static_cast<std::uint32_t>(chunk.buffers.size()));
        for (const auto buffer : chunk.buffers) put_u64(out, buffer.size());
    }
    return encode_prologue(out.text()) + out.text();
}

Prologue decode_prologue(std::string_view bytes, std::uint64_t file_bytes) {
    if (!bytes.starts_with(header_magic))
        throw ProtocolError("it is not a checkpoint of the parameter service");
    if (bytes.size() < prologue_bytes) throw ProtocolError("it has been cut off");
    PayloadReader in(bytes.substr(header_magic.size(), prologue_bytes - header_magic.size()));
    if (const std::uint32_t version = in.u32(); version != checkpoint_version)
        throw ProtocolError(fmt::format("its format is version {}, and this Hocket reads version {}", version,
                                        checkpoint_version));
    Prologue prologue{};
    prologue.header_bytes = take_u64(in);
    prologue.header_checksum = take_u64(in);
    if (take_u64(in) != checksum_of(bytes.substr(0, prologue_bytes - 8)))
        throw ProtocolError(fmt::format("its first {} bytes are damaged", prologue_bytes));
    if (prologue.header_bytes > file_bytes - prologue_bytes) throw ProtocolError("it has been cut off");
    return prologue;
}

CheckpointLayout decode_header(const Prologue& prologue, std::string_view header, std::uint64_t file_bytes) {
    if (header.size() != prologue.header_bytes || checksum_of(header) != prologue.header_checksum)
        throw ProtocolError(fmt::format("its header, from byte {} to {}, is damaged", prologue_bytes,
                                        prologue_bytes + prologue.header_bytes));
    PayloadReader in(header);
    CheckpointLayout layout;
    layout.contents.incarnation = in.u32();
    layout.contents.firsts = read_firsts(in);
    const std::size_t job_bytes = in.u32();
    layout.contents.job = in.bytes(job_bytes);
    std::uint64_t left = file_bytes - prologue_bytes - header.size();
    for (std::uint32_t chunks = in.u32(); chunks > 0; --chunks) {
        layout.contents.chunks.push_back({take_u64(in), {}});
        layout.chunks.push_back(read_chunk_header(in, left));
    }
    in.finish();
    if (left > 0) throw ProtocolError(fmt::format("it has {} bytes too many at its end", left));
    return layout;
}

}  // namespace hocket::params
