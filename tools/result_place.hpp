// Where a tool writes a file that the user has named.
#pragma once

#include <string>

namespace hocket::tools {

// Call it before work that takes long: that the file cannot be written is then known before. Throws
// std::runtime_error if its folder does not exist, or if it is a folder itself.
void check_place(const std::string& file);

}  // namespace hocket::tools
