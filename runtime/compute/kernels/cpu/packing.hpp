// Values in a narrower format: what travels in `reduce_scatter x over l as int8`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dsl/base/wire_format.hpp"

namespace hocket::kernels {

// Packs `count` values into format.bytes(count) bytes: the blocks in order, each its scale and its codes
// (dsl/base/wire_format.hpp). Codes are rounded to nearest, ties to even, and are the same on every
// processor. A block with an infinity or a NaN unpacks as NaNs; one whose magnitudes are all below 2^-100 as
// zeros. Formats without scales round each value by itself. to: at a multiple of 4 bytes. Thread-safe.
void pack(const dsl::WireFormat& format, const float* values, std::uint64_t count, std::byte* to);

struct PackedPiece {
    dsl::WireFormat format;
    const std::byte* bytes;
    std::uint64_t count;
};

// to[i] = to[i] + the value of element first + i, for i = 0 .. n - 1; all of them must exist. Thread-safe.
void add_unpacked(const PackedPiece& piece, std::uint64_t first, std::uint64_t n, float* to);
// to[i] = to[i] - that value; infinities and NaNs leave 0. Thread-safe.
void subtract_unpacked(const PackedPiece& piece, std::uint64_t first, std::uint64_t n, float* to);

// The same in instructions that every processor has, for tests.
void pack_portably(const dsl::WireFormat& format, const float* values, std::uint64_t count, std::byte* to);
void add_unpacked_portably(const PackedPiece& piece, std::uint64_t first, std::uint64_t n, float* to);

}  // namespace hocket::kernels
