// What formatting changes, as a unified diff.
#pragma once

#include <string>

namespace hocket::tools {

// For two texts that differ in white space alone: lines then belong together that stand behind as many other
// characters. Returns "" for equal texts.
std::string layout_diff(const std::string& path, const std::string& before, const std::string& after);

}  // namespace hocket::tools
