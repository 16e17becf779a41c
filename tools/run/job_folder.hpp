// The folder in which a job's ranks write for hocket-run: the one that an environment variable names, or a
// temporary one that is removed on destruction.
#pragma once

#include <string>

namespace hocket::tools {

class JobFolder {
  public:
    // what: the folder's purpose, for example "recordings". Throws std::runtime_error.
    JobFolder(const char* variable, const char* what);
    ~JobFolder();
    JobFolder(const JobFolder&) = delete;

    const std::string& path() const { return path_; }
    bool is_kept() const { return !is_own_; }
    void keep() { is_own_ = false; }  // the folder is not removed

  private:
    std::string path_;
    bool is_own_ = false;
};

}  // namespace hocket::tools
