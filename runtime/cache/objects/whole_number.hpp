// Numbers in texts of others.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hocket::cache {

// Returns nothing unless all of the text is one number without a sign.
inline std::optional<std::uint64_t> whole_number(std::string_view text, int base = 10) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
    return value;
}

}  // namespace hocket::cache
