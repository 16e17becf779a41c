// Parts of the pictures (SVG) that the tools draw.
#pragma once

#include <string>

namespace hocket::tools {

// Returns the text as SVG has it, in elements and in attributes.
std::string escaped_text(const std::string& text);

inline constexpr int most_marks_of_axis = 12;
// Returns the seconds between two marks of a time axis: 1, 2 or 5 times a power of ten.
double axis_step(double seconds);

}  // namespace hocket::tools
