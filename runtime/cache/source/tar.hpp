// The headers of tar archives: ustar, GNU's and pax's. Does no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace hocket::cache {

inline constexpr std::size_t tar_block = 512;

struct TarHeader {
    std::string name;  // up to 256 bytes; longer ones are in a header of their own before it
    std::uint64_t bytes = 0;
    char type = '0';

    bool is_file() const { return type == '0' || type == '\0' || type == '7'; }
    // Its data describe the member that follows: long names (L, K) and pax's headers (x, and g for all
    // members).
    bool is_description() const { return type == 'L' || type == 'K' || type == 'x' || type == 'g'; }
    // Links, devices and folders have none, whatever size their headers say.
    bool has_data() const { return type < '1' || type > '6'; }
};

// Returns nothing for a block of zeros, which ends an archive. Throws Error(io), without a place, if it is no
// header.
std::optional<TarHeader> parse_tar_header(std::span<const std::byte, tar_block> block);

// What a pax header says about the member that follows it, as far as it matters here.
struct PaxValues {
    std::optional<std::string> path;
    std::optional<std::uint64_t> size;
};

// Throws Error(io), without a place, if the text is no sequence of "LENGTH KEY=VALUE\n".
PaxValues parse_pax(std::string_view text);

}  // namespace hocket::cache
