// Folders in which a job's ranks write their recordings (runtime/engine/record), as hocket-run uses them.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/record/recording.hpp"
#include "tools/run/job_folder.hpp"

namespace hocket::tools {

// All recordings in a folder, of ranks on any hosts. remarks: gets a line for people for each file that
// cannot be read.
std::vector<record::Recording> read_recordings(const std::string& folder, std::string& remarks);

class RecordingFolder {
  public:
    // Throws std::runtime_error.
    RecordingFolder() : folder_("HOCKET_FLIGHT_RECORDER", "recordings") {}

    const std::string& path() const { return folder_.path(); }
    bool is_kept() const { return folder_.is_kept(); }

    // Asks all ranks to write how they stand.
    void ask();

    // What ranks of this host with these process groups have written; in a folder that is used again, or by
    // several hosts, there may be more.
    std::vector<record::Recording> read(const std::vector<int>& process_groups) const;

    // Whether all processes that live have answered what was asked last, or broken before.
    bool is_answered(const std::vector<record::Recording>& recordings) const;

  private:
    JobFolder folder_;
    std::string request_;
};

}  // namespace hocket::tools
