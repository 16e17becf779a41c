// Puts the traces of a job's ranks (runtime/record/trace_file.hpp) together in one file for Perfetto, and
// their clocks right.
#pragma once

#include <cstddef>
#include <string>

namespace hocket::tools {

struct JoinedTrace {
    std::size_t ranks = 0, slices = 0;
    std::size_t unreadable = 0;  // lines, as a rank leaves one if it is killed while it writes
    // One line for each clock but the first: whose it is, and how far it is off. Empty on one host.
    std::string clocks;
};

// All traces of a folder, and what they become. A file of that name is replaced. Clocks of several hosts are
// compared by what cannot be: that a rank ends a collective before another, of which it needs data, has begun
// it. Throws std::runtime_error: the folder has no trace, or one that is none; the file cannot be written.
JoinedTrace join_traces(const std::string& folder, const std::string& file);

}  // namespace hocket::tools
