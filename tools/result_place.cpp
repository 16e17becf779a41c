#include "tools/result_place.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace hocket::tools {

void check_place(const std::string& file) {
    std::error_code unknown;
    const auto folder = std::filesystem::absolute(file).parent_path();
    if (!std::filesystem::is_directory(folder, unknown))
        throw std::runtime_error(
            fmt::format("{} cannot be written: there is no folder {}", file, folder.string()));
    if (std::filesystem::is_directory(file, unknown))
        throw std::runtime_error(fmt::format("{} cannot be written: it is a folder", file));
}

}  // namespace hocket::tools
