// Labels of segments: what they hold, in words for whoever looks into the folder.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hocket::cache {

inline constexpr std::size_t most_label_bytes = 255;

// The text as a line of UTF-8 that can be shown on any terminal, cut off at a character's boundary where it
// is too long. A '?' stands for each control character and for each byte that is not UTF-8: paths may hold
// both.
std::string fit_label(std::string_view text);

}  // namespace hocket::cache
