// The folders in which a job's ranks write their recordings (runtime/engine/record), as used by hocket-run.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/record/recording.hpp"
#include "tools/run/job_folder.hpp"

namespace hocket::tools {

// Reads all recordings in a folder, of ranks on any hosts. remarks: receives a line for people for each file
// that cannot be read.
std::vector<record::Recording> read_recordings(const std::string& folder, std::string& remarks);

class RecordingFolder {
  public:
    // Throws std::runtime_error.
    RecordingFolder() : folder_("HOCKET_FLIGHT_RECORDER", "recordings") {}

    const std::string& path() const { return folder_.path(); }
    bool is_kept() const { return folder_.is_kept(); }

    // Asks all ranks to write their state.
    void ask();

    // Reads the recordings of ranks on this host with these process groups; a folder that is reused, or
    // shared by several hosts, may have more.
    std::vector<record::Recording> read(const std::vector<int>& process_groups) const;

    // Returns true if all living processes have answered the last request, or have recorded a failure.
    bool is_answered(const std::vector<record::Recording>& recordings) const;

  private:
    JobFolder folder_;
    std::string request_;
};

}  // namespace hocket::tools
