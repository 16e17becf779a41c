// Encodes and decodes the format of a segment, the cache's file on the local disk. Does no I/O, so that it
// can be fuzzed. All integers are little-endian.
//
//   0            header, one page: magic, version, dataset, identity, sizes, label, checksum
//   4096         index: `slots` entries of 48 bytes, each with its own checksum; unused ones are zero
//   data_begin   payloads, each at a multiple of `unit`
//   data_end     (rounded up to 4096) footer of a sealed segment, the last page of the file: used slots,
//                data_end, a checksum over the used slots
//
// Every checksum is seeded with the segment's identity and with its own position. So bytes that were written
// to the wrong place, or are left over from an older file, are not taken for an entry, and no payload is
// taken for another one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace hocket::cache {

using Digest = std::array<std::uint64_t, 2>;  // XXH3, 128 bits

inline constexpr std::uint64_t segment_page = 4096, entry_bytes = 48;
inline constexpr std::uint32_t segment_version = 2;
inline constexpr std::uint64_t index_piece = 1024;  // slots that are read and checksummed together: 12 pages

// unit: a power of two; value: at most 2^62.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t unit) {
    return (value + unit - 1) & ~(unit - 1);
}
constexpr std::uint64_t entry_offset(std::uint64_t slot) {
    return segment_page + slot * entry_bytes;
}
constexpr std::uint64_t footer_offset(std::uint64_t data_end) {
    return align_up(data_end, segment_page);
}

struct SegmentHeader {
    Digest dataset;            // the source of the payloads
    Digest identity;           // random
    std::uint64_t file_bytes;  // as allocated
    std::uint64_t slots;       // of the index
    std::uint64_t unit;        // payloads begin at its multiples: a power of two from 8 to 64 KiB
    std::string label;         // describes the dataset for people, as returned by fit_label()
    // The number of samples of the dataset's source: smaller keys are the source's, all others were put.
    // Empty: unknown, because a function provides the samples, or because the segment is an old one.
    std::optional<std::uint64_t> source_samples = std::nullopt;

    std::uint64_t data_begin() const {  // the first multiple of 4096 behind the index
        return align_up(entry_offset(slots), segment_page);
    }
};

struct Entry {
    std::uint64_t key;
    std::uint64_t offset;    // of the payload, in the file
    std::uint64_t bytes;     // of the payload
    std::uint64_t checksum;  // of the payload: see payload_checksum
};

struct SegmentFooter {
    std::uint64_t used_slots;
    std::uint64_t data_end;
    std::uint64_t index_checksum;  // see below
};

using Page = std::array<std::byte, segment_page>;

void encode_header(const SegmentHeader& header, Page& page);
void encode_entry(const SegmentHeader& header, std::uint64_t slot, const Entry& entry, std::byte* to);
void encode_footer(const SegmentHeader& header, const SegmentFooter& footer, Page& page);

// Returns nothing if it is not a header (any more). Never reads beyond the page, whatever it contains. All
// offsets and sizes in the result fit the file as it was allocated: the caller needs to check them only
// against the file's present size.
std::optional<SegmentHeader> decode_header(std::span<const std::byte> page);
std::optional<Entry> decode_entry(const SegmentHeader& header, std::uint64_t slot,
                                  std::span<const std::byte> bytes);
bool is_unused(std::span<const std::byte> slot);
std::optional<SegmentFooter> decode_footer(const SegmentHeader& header, std::span<const std::byte> page);

// Returns the checksum of the used slots' bytes, computed in pieces of index_piece slots (the last may be
// shorter), one call per piece. so_far: the result of the previous call, 0 for the first.
std::uint64_t index_checksum(const SegmentHeader& header, std::uint64_t so_far,
                             std::span<const std::byte> piece);
std::uint64_t payload_checksum(const Digest& identity, const Entry& place,
                               std::span<const std::byte> payload);

}  // namespace hocket::cache
