// Puts the recordings of a job's ranks together: who waits for whom, and who is missing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/engine/record/recording.hpp"

namespace hocket::tools {

// How the process with this number in the job has ended, "killed by signal 9 (Killed)"; "": it has not.
using EndingOf = std::function<std::string(int job_rank)>;

// Lines for a terminal, each with a line break.
std::string report_text(const std::vector<record::Recording>& recordings, const EndingOf& ending_of);

}  // namespace hocket::tools
