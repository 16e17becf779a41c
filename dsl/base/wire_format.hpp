// Formats in which values travel that are narrower than the elements of their buffer.
#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace hocket::dsl {

// ROW(name, bits of an element, true if each block of elements has a scale)
//
// A block's scale is a float32 before the codes of its elements. An element is its code times the scale:
//
//   float8  OCP E4M3; the scale is the block's largest magnitude / 448
//   int8    -127 to 127; the scale is the largest magnitude / 127
//   int4    -7 to 7; the scale is the largest magnitude / 7
//   sign    1 or -1; the scale is the mean of the magnitudes
#define HOCKET_WIRE_FORMATS(ROW) \
    ROW(bfloat16, 16, false)     \
    ROW(float16, 16, false)      \
    ROW(float8, 8, true)         \
    ROW(int8, 8, true)           \
    ROW(int4, 4, true)           \
    ROW(sign, 1, true)

struct WireFormat {
#define HOCKET_NAME(name, ...) name,
    enum class Kind : std::uint8_t { HOCKET_WIRE_FORMATS(HOCKET_NAME) };
#undef HOCKET_NAME
    // Blocks are of whole bytes in each format. The largest fits into a processor's first cache.
    static constexpr std::uint32_t usual_block = 256, block_unit = 8, most_block = 4096;

    Kind kind = Kind::bfloat16;
    std::uint32_t block =
        usual_block;  // elements that share a scale; the last block of a piece may be shorter

    friend bool operator==(const WireFormat&, const WireFormat&) = default;

    unsigned bits() const;
    bool has_scales() const;
    // Returns the bytes of a block with so many elements, from 1 to `block`: its scale, and whole bytes of
    // codes, which end at a multiple of 4 bytes.
    std::uint64_t bytes_of_block(std::uint64_t elements) const;
    std::uint64_t bytes(std::uint64_t elements) const;
    // Returns the bytes of an element of a large piece, with its part of the scale.
    double bytes_of_element() const;
    std::string text() const;  // "int8(256)", "bfloat16"
};

struct WireFormatRow {
    std::string_view name;
    unsigned bits;
    bool has_scales;
};
inline constexpr WireFormatRow wire_format_rows[] = {
#define HOCKET_ROW(name, bits, has_scales) {#name, bits, has_scales},
    HOCKET_WIRE_FORMATS(HOCKET_ROW)
#undef HOCKET_ROW
};

std::optional<WireFormat::Kind> wire_format_of(std::string_view name);
// The largest elements travel, as mstopk(density): the language uses it like a format.
inline constexpr std::string_view largest_elements = "mstopk";
// Returns true for the name of a format, or that.
bool is_format(std::string_view name);
// Returns "bfloat16, float16, float8, ..., mstopk(DENSITY)".
std::string wire_format_names();

}  // namespace hocket::dsl
