// The schedule files that a command line names.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "dsl/base/source.hpp"

namespace hocket::tools {

// Stands for standard input where a file is expected.
inline constexpr const char* standard_input = "-";

// Returns the paths, with all .sched files below each folder in its place, sorted by name. Throws
// NotFoundError for a folder that has none, or that cannot be read.
std::vector<std::string> without_folders(const std::vector<std::string>& paths);

// More than the parser of schedules takes; it says so.
inline constexpr std::size_t most_of_schedule = 2 << 20;

// Reads a file, or standard input to its end; it is then called "<stdin>". Of a longer text, `most_bytes` or
// a few more are read. Throws NotFoundError.
dsl::SourceFile read_source(const std::string& path, std::size_t most_bytes = most_of_schedule);

}  // namespace hocket::tools
