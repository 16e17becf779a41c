// The index of a packed file: where in it each sample lies.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::cache {

struct Part {
    std::uint64_t offset, bytes;
};

// Lines "OFFSET BYTES" in decimal, a line a sample; '#' begins a comment, more words behind the two are
// ignored, lines may end with CR LF. Every part lies inside the data_bytes of the packed file. No I/O. Throws
// hocket::Error(invalid_argument) with `path` (the index's, for the text) and the line.
std::vector<Part> parse_index(std::string_view text, std::uint64_t data_bytes, const std::string& path);

}  // namespace hocket::cache
