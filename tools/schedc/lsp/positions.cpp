#include "tools/schedc/lsp/positions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace hocket::tools::lsp {
namespace {

constexpr std::string_view file_scheme = "file://";

struct Character {
    std::size_t bytes, units;
};

// The character that the text begins with.
Character first_of(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t bytes = lead < 0x80 ? 1 : lead >= 0xf0 && lead < 0xf8 ? 4 : lead >= 0xe0 ? 3 : 2;
    const bool is_alone = lead < 0xc0 || lead >= 0xf8 || text.size() < bytes;
    if (lead < 0x80 || is_alone) return {1, 1};
    for (std::size_t i = 1; i < bytes; ++i)
        if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return {1, 1};
    return {bytes, bytes == 4 ? std::size_t{2} : std::size_t{1}};
}

}  // namespace

std::size_t units_of(std::string_view text) {
    std::size_t units = 0;
    while (!text.empty()) {
        const Character first = first_of(text);
        units += first.units;
        text.remove_prefix(first.bytes);
    }
    return units;
}

LineIndex::LineIndex(std::string_view text) : begins_{0} {
    for (std::size_t i = 0; i < text.size(); ++i)
        if (text[i] == '\n' || (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] != '\n')))
            begins_.push_back(i + 1);
}

std::size_t LineIndex::offset_of(std::string_view text, EditorPosition position) const {
    if (position.line >= begins_.size()) return text.size();
    const std::size_t begin = begins_[position.line];
    const std::size_t next = position.line + 1 < begins_.size() ? begins_[position.line + 1] : text.size();
    std::string_view line = text.substr(begin, next - begin);
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
    std::size_t at = 0, units = 0;
    while (at < line.size()) {
        const Character first = first_of(line.substr(at));
        units += first.units;
        if (units > position.character) break;
        at += first.bytes;
    }
    return begin + at;
}

EditorPosition LineIndex::position_of(std::string_view text, std::size_t offset) const {
    offset = std::min(offset, text.size());
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), offset);
    const auto line = static_cast<std::size_t>(after - begins_.begin()) - 1;
    return {line, units_of(text.substr(begins_[line], offset - begins_[line]))};
}

std::string path_of(std::string_view uri) {
    if (!uri.starts_with(file_scheme)) return "";
    uri.remove_prefix(file_scheme.size());
    uri.remove_prefix(std::min(uri.find('/'), uri.size()));  // the host
    std::string path;
    for (std::size_t i = 0; i < uri.size(); ++i) {
        unsigned char byte = 0;
        const char* digits = uri.data() + i + 1;
        const bool is_escape = uri[i] == '%' && i + 2 < uri.size() &&
                               std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
        path += is_escape ? static_cast<char>(byte) : uri[i];
        i += is_escape ? 2 : 0;
    }
    return path;
}

std::string uri_of(std::string_view path) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    std::error_code ignored;  // a path that cannot be made absolute stays as it is
    const std::string whole = std::filesystem::absolute(path, ignored).string();
    std::string uri(file_scheme);
    for (const char c : whole.empty() ? std::string(path) : whole)
        uri += plain.find(c) != plain.npos ? std::string(1, c)
                                           : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    return uri;
}

}  // namespace hocket::tools::lsp
