#include "tools/schedc/lsp/framing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

namespace hocket::tools::lsp {
namespace {

constexpr std::string_view header_end = "\r\n\r\n", line_end = "\r\n";

// Names of headers are of any case.
bool is_length(std::string_view name) {
    constexpr std::string_view wanted = "content-length";
    return std::equal(name.begin(), name.end(), wanted.begin(), wanted.end(),
                      [](unsigned char a, char b) { return std::tolower(a) == b; });
}

std::size_t length_of(std::string_view value) {
    value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (error != std::errc() || end != value.data() + value.size())
        throw FramingError("a message's Content-Length is no number of bytes");
    if (length > longest_content)
        throw FramingError(fmt::format("a message of {} bytes: the most are {}", length, longest_content));
    return length;
}

}  // namespace

std::optional<std::string> MessageReader::next() {
    if (!length_) read_header();
    if (!length_ || buffer_.size() < *length_) return std::nullopt;
    std::string content = buffer_.substr(0, *length_);
    buffer_.erase(0, *length_);
    length_.reset();
    return content;
}

void MessageReader::read_header() {
    const std::size_t end = buffer_.find(header_end);
    if (std::min(end, buffer_.size()) > longest_header)
        throw FramingError(fmt::format("a header of more than {} bytes", longest_header));
    if (end == buffer_.npos) return;
    std::optional<std::size_t> length;
    for (std::size_t begin = 0; begin < end;) {
        const std::size_t next = std::min(buffer_.find(line_end, begin), end);
        const std::string_view line = std::string_view(buffer_).substr(begin, next - begin);
        const std::size_t colon = line.find(':');
        if (colon == line.npos) throw FramingError("a line of a header has no ':'");
        if (is_length(line.substr(0, colon))) length = length_of(line.substr(colon + 1));
        begin = next + line_end.size();
    }
    if (!length) throw FramingError("a header has no Content-Length");
    buffer_.erase(0, end + header_end.size());
    length_ = length;
}

std::string framed(std::string_view content) {
    return fmt::format("Content-Length: {}\r\n\r\n{}", content.size(), content);
}

}  // namespace hocket::tools::lsp
