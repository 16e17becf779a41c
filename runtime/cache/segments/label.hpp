// Labels of segments, which describe their contents for people who look into the folder.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hocket::cache {

inline constexpr std::size_t most_label_bytes = 255;

// Returns the text as a line of UTF-8 that any terminal can show. Cuts it between two characters if it is too
// long, and replaces each control character and each byte that is not UTF-8 by '?': paths may contain both.
std::string fit_label(std::string_view text);

}  // namespace hocket::cache
