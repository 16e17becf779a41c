#include "runtime/cache/label.hpp"

#include <bit>
#include <cstdint>
#include <optional>

namespace hocket::cache {
namespace {

struct Character {
    std::uint32_t code;
    std::size_t bytes;
};

// That the text begins with; nothing: it begins with a byte that is not UTF-8.
std::optional<Character> first_character(std::string_view text) {
    constexpr std::uint32_t least_code[] = {0x80, 0x800, 0x10000};  // of 2, 3, 4 bytes
    const auto first = static_cast<unsigned char>(text[0]);
    if (first < 0x80) return Character{first, 1};
    const auto bytes = static_cast<std::size_t>(std::countl_one(first));
    if (bytes < 2 || bytes > 4 || bytes > text.size()) return {};
    std::uint32_t code = first & (0x7fu >> bytes);
    for (const char next : text.substr(1, bytes - 1)) {
        if ((next & 0xc0) != 0x80) return {};
        code = code << 6 | (next & 0x3fu);
    }
    const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
    if (code < least_code[bytes - 2] || code > 0x10ffff || is_surrogate) return {};
    return Character{code, bytes};
}

bool is_control(std::uint32_t code) {
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

}  // namespace

std::string fit_label(std::string_view text) {
    std::string label;
    while (!text.empty()) {
        const auto character = first_character(text);
        const std::size_t bytes = character ? character->bytes : 1;
        const bool is_shown = character && !is_control(character->code);
        const std::string_view shown = is_shown ? text.substr(0, bytes) : "?";
        if (label.size() + shown.size() > most_label_bytes) break;
        label += shown;
        text.remove_prefix(bytes);
    }
    return label;
}

}  // namespace hocket::cache
