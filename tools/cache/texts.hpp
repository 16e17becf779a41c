// Texts in hocket-cache's output.
#pragma once

#include <string>

#include "tools/texts.hpp"

namespace hocket::cache_tool {

using tools::bytes_text;
using tools::count_text;
using tools::duration_text;

// For FolderListing::foreign.
inline std::string foreign_text(const std::string& what) {
    return "foreign: " + what + "; caches pass it over";
}

}  // namespace hocket::cache_tool
