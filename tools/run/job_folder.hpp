// Where a job's ranks write for hocket-run: the folder that an environment variable names, or a fresh one
// that goes away with this.
#pragma once

#include <string>

namespace hocket::tools {

class JobFolder {
  public:
    // what: that for which it is, "recordings". Throws std::runtime_error.
    JobFolder(const char* variable, const char* what);
    ~JobFolder();
    JobFolder(const JobFolder&) = delete;

    const std::string& path() const { return path_; }
    bool is_kept() const { return !is_own_; }
    void keep() { is_own_ = false; }  // after this has gone, too

  private:
    std::string path_;
    bool is_own_ = false;
};

}  // namespace hocket::tools
