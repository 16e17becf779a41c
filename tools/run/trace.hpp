// Joins the traces of a job's ranks (runtime/engine/record/trace_file.hpp) in one file for Perfetto, and
// corrects their clocks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hocket::tools {

struct JoinedTrace {
    std::size_t ranks = 0, slices = 0;
    std::size_t unreadable = 0;  // lines; a rank leaves one if it is killed while it writes
    // Lines for people: how far each clock but the first is off, and problems of the files.
    std::string remarks;
};

// Joins all traces of a folder, or those of ranks on this host with these process groups, and returns
// statistics. A file of that name is replaced. Clocks of several hosts are compared by causality: a rank
// cannot end a collective before another rank, whose data it needs, has begun it. Throws std::runtime_error
// if there is no trace or the file cannot be written.
JoinedTrace join_traces(const std::string& folder, const std::string& file,
                        const std::vector<int>* process_groups = nullptr);

// Throws std::runtime_error if a file of this name cannot be written. Call it before the ranks run in vain.
void check_trace_file(const std::string& file);

}  // namespace hocket::tools
