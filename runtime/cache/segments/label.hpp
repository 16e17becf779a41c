// Labels of segments: what they hold, in words for people who look into the folder.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hocket::cache {

inline constexpr std::size_t most_label_bytes = 255;

// The text as a line of UTF-8 that any terminal can show. If it is too long, it is cut off between two
// characters. Each control character and each byte that is not UTF-8 becomes a '?': paths may hold both.
std::string fit_label(std::string_view text);

}  // namespace hocket::cache
