#include "tests/dsl/errors.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace hocket::test {

TemporarySchedule::TemporarySchedule(const std::string& text) {
    std::string pattern = (std::filesystem::temp_directory_path() / "hocket-test-XXXXXX.sched").string();
    const int file = mkstemps(pattern.data(), 6);
    if (file < 0) throw std::runtime_error("no temporary file: " + pattern);
    close(file);
    path_ = pattern;
    std::ofstream(path_) << text;
}

TemporarySchedule::~TemporarySchedule() {
    std::filesystem::remove(path_);
}

}  // namespace hocket::test
