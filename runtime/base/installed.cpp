#include "runtime/base/installed.hpp"

#include <dlfcn.h>
#include <link.h>

#include <system_error>

namespace hocket {

namespace fs = std::filesystem;

namespace {

// Returns `folder` without `end` at its end; nothing if it ends otherwise.
std::optional<fs::path> without_end(fs::path folder, const fs::path& end) {
    for (auto part = end.end(); part != end.begin(); folder = folder.parent_path())
        if (folder.filename() != *--part) return std::nullopt;
    return folder;
}

}  // namespace

fs::path own_file() {
    Dl_info info{};
    void* loaded = nullptr;
    if (dladdr1(reinterpret_cast<const void*>(&own_file), &info, &loaded, RTLD_DL_LINKMAP) == 0) return {};
    // The loader has no path for the program itself, and dladdr returns the name that it was called by, which
    // need not be a path.
    const bool is_program = loaded == nullptr || *static_cast<const link_map*>(loaded)->l_name == '\0';
    std::error_code ignored;
    return fs::weakly_canonical(is_program ? "/proc/self/exe" : info.dli_fname, ignored);
}

std::optional<fs::path> own_prefix() {
    const fs::path own = own_file().parent_path(), libraries = HOCKET_LIBRARY_FOLDER;
    // A distribution's libraries may have been moved from lib/x86_64-linux-gnu to lib.
    for (const fs::path& folder : {libraries, *libraries.begin(), fs::path(HOCKET_PROGRAM_FOLDER)})
        if (const auto prefix = without_end(own, folder)) return prefix;
    return std::nullopt;
}

fs::path installed_place(const fs::path& relative) {
    const fs::path prefix = own_prefix().value_or(own_file().parent_path().parent_path());
    // The system gave no path: do not use the working folder.
    return prefix.empty() ? prefix : prefix / relative;
}

std::vector<PluginPlace> plugin_places(const std::string& file_name) {
    std::vector<PluginPlace> places;
    if (const fs::path self = own_file(); !self.empty())
        places.push_back({"beside Hocket", self.parent_path() / file_name});
    if (const auto prefix = own_prefix())
        places.push_back({"as it is installed", *prefix / HOCKET_PLUGIN_FOLDER / file_name});
    places.push_back({"by the loader's path", file_name});
    return places;
}

}  // namespace hocket
