// Combines the recordings of a job's ranks: shows which ranks wait for which, and which are missing.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/engine/record/recording.hpp"

namespace hocket::tools {

// Returns how the process with this number in the job has ended, for example "killed by signal 9 (Killed)";
// "": it has not.
using EndingOf = std::function<std::string(int job_rank)>;

// Returns for each rank that has lost another one which it lost; numbers as in the job.
std::map<int, int> losses(const std::vector<record::Recording>& recordings);

// Returns lines for a terminal, each with a line break.
std::string report_text(const std::vector<record::Recording>& recordings, const EndingOf& ending_of);

}  // namespace hocket::tools
