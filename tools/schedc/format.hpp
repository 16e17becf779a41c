// schedc fmt: lays out schedule files in the library's style.
#pragma once

#include <string>
#include <vector>

#include "tools/schedc/messages.hpp"

namespace hocket::tools {

struct FormatOptions {
    std::vector<std::string> files;  // or folders; "-" is standard input, whose text goes to standard output
    bool check = false;              // writes no file, and names those that would change
    bool diff = false;               // writes no file, and shows what would change
    MessageOptions messages;
};

// Returns 0; 1 if a file is refused or cannot be written, and with `check` or `diff` if one would change.
// What is refused stays as it is, and the others are still formatted. Throws NotFoundError for a folder
// without schedules.
int run_format(const FormatOptions& options);

}  // namespace hocket::tools
