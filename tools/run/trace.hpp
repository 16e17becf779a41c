// Puts the traces of a job's ranks (runtime/engine/record/trace_file.hpp) together in one file for Perfetto,
// and their clocks right.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hocket::tools {

struct JoinedTrace {
    std::size_t ranks = 0, slices = 0;
    std::size_t unreadable = 0;  // lines, as a rank leaves one if it is killed while it writes
    // Lines for people: how far each clock but the first is off, and what is odd about the files.
    std::string remarks;
};

// All traces of a folder, or those of ranks of this host with these process groups, and what they become. A
// file of that name is replaced. Clocks of several hosts are compared by what cannot be: that a rank ends a
// collective before another, of which it needs data, has begun it. Throws std::runtime_error: there is no
// trace; the file cannot be written.
JoinedTrace join_traces(const std::string& folder, const std::string& file,
                        const std::vector<int>* process_groups = nullptr);

// Throws std::runtime_error if there can be no file of this name. To be called before the ranks run in vain.
void check_trace_file(const std::string& file);

}  // namespace hocket::tools
