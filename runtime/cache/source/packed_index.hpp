// Parses the index of a packed file, which says where in the file each sample lies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::cache {

struct Part {
    std::uint64_t offset, bytes;
};

// Each line describes a sample: "OFFSET BYTES" in decimal. '#' begins a comment; further words on a line are
// ignored; lines may end with CR LF. Every part must lie inside the data_bytes of the packed file. Does no
// I/O. Throws hocket::Error(invalid_argument) with `path` (the index's, for the text) and the line.
std::vector<Part> parse_index(std::string_view text, std::uint64_t data_bytes, const std::string& path);

}  // namespace hocket::cache
