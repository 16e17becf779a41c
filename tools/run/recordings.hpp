// Folders in which a job's ranks write their recordings (runtime/record), as hocket-run uses them.
#pragma once

#include <string>
#include <vector>

#include "runtime/record/recording.hpp"

namespace hocket::tools {

// All recordings in a folder, of ranks on any hosts.
std::vector<record::Recording> read_recordings(const std::string& folder);

class RecordingFolder {
  public:
    // The folder that HOCKET_FLIGHT_RECORDER names, or a fresh one that goes away with this. Throws
    // std::runtime_error.
    RecordingFolder();
    ~RecordingFolder();
    RecordingFolder(const RecordingFolder&) = delete;

    const std::string& path() const { return path_; }
    bool is_kept() const { return !is_own_; }

    // Asks all ranks to write how they stand.
    void ask();

    // What ranks of this host with these process groups have written; in a folder that is used again, or by
    // several hosts, there may be more.
    std::vector<record::Recording> read(const std::vector<int>& process_groups) const;

    // Whether all processes that live have answered what was asked last, or broken before.
    bool is_answered(const std::vector<record::Recording>& recordings) const;

  private:
    std::string path_;
    bool is_own_ = false;
    std::string request_;
};

}  // namespace hocket::tools
