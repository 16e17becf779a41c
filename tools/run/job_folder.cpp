#include "tools/run/job_folder.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace hocket::tools {

namespace fs = std::filesystem;

JobFolder::JobFolder(const char* variable, const char* what) {
    const char* const named = std::getenv(variable);
    if (named != nullptr && *named != '\0') {
        path_ = named;
        std::error_code none;
        fs::create_directories(path_, none);
        if (!fs::is_directory(path_))
            throw std::runtime_error(
                fmt::format("{} names {} for the ranks' {}, which is no folder and cannot be made one",
                            variable, path_, what));
        return;
    }
    path_ = (fs::temp_directory_path() / "hocket-run-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr)
        throw std::runtime_error(
            fmt::format("cannot make a folder for the ranks' {}, {}: {}", what, path_, std::strerror(errno)));
    is_own_ = true;
}

JobFolder::~JobFolder() {
    std::error_code ignored;
    if (is_own_) fs::remove_all(path_, ignored);
}

}  // namespace hocket::tools
