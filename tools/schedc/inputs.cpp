#include "tools/schedc/inputs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/named_file.hpp"

namespace hocket::tools {
namespace {

namespace fs = std::filesystem;

void add_files_below(const std::string& folder, std::vector<std::string>& files) {
    const std::size_t first = files.size();
    std::error_code error;
    for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error))
        if (entry->path().extension() == ".sched") files.push_back(entry->path().string());
    if (error)
        throw dsl::NotFoundError(fmt::format("cannot read the folder {}: {}", folder, error.message()));
    if (files.size() == first)
        throw dsl::NotFoundError(fmt::format("the folder {} has no .sched files", folder));
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
}

std::string read_standard_input(std::size_t most_bytes) {
    std::string text;
    char part[1 << 14];
    while (text.size() < most_bytes) {
        const ssize_t count = read(STDIN_FILENO, part, sizeof part);
        if (count == 0) break;
        if (count > 0)
            text.append(part, static_cast<std::size_t>(count));
        else if (errno != EINTR)
            throw dsl::NotFoundError(
                fmt::format("cannot read stdin: {}", std::generic_category().message(errno)));
    }
    return text;
}

}  // namespace

std::vector<std::string> without_folders(const std::vector<std::string>& paths) {
    std::vector<std::string> files;
    for (const std::string& path : paths) {
        std::error_code ignored;  // what cannot be looked at is no folder: whoever opens it says why
        if (fs::is_directory(path, ignored))
            add_files_below(path, files);
        else
            files.push_back(path);
    }
    return files;
}

dsl::SourceFile read_source(const std::string& path, std::size_t most_bytes) {
    if (path == standard_input) return {"<stdin>", read_standard_input(most_bytes)};
    try {
        return {path, read_text(path, most_bytes)};
    } catch (const UnreadableFile& refused) {
        throw dsl::NotFoundError(fmt::format("cannot read {}: {}", path, refused.what()));
    }
}

}  // namespace hocket::tools
