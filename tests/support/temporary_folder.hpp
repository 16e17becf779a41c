// A folder for the files of a test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace hocket::test {

// Removed with all that is in it.
class TemporaryFolder {
  public:
    explicit TemporaryFolder(const std::string& below = std::filesystem::temp_directory_path())
        : path_(below + "/hocket-test-XXXXXX") {
        if (!mkdtemp(path_.data())) throw std::runtime_error("no temporary folder: " + path_);
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::string& path() const { return path_; }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path_ + "/" + name) << text;
    }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
};

}  // namespace hocket::test
