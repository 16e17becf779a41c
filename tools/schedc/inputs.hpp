// The schedule files that a command line names.
#pragma once

#include <string>
#include <vector>

#include "dsl/base/source.hpp"

namespace hocket::tools {

// Stands for standard input where a file is expected.
inline constexpr const char* standard_input = "-";

// Returns the paths, with all .sched files below each folder in its place, sorted by name. Throws
// NotFoundError for a folder that has none, or that cannot be read.
std::vector<std::string> without_folders(const std::vector<std::string>& paths);

// Reads a file, or standard input to its end; it is then called "<stdin>". Throws NotFoundError.
dsl::SourceFile read_source(const std::string& path);

}  // namespace hocket::tools
