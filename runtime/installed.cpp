#include "runtime/installed.hpp"

#include <dlfcn.h>
#include <link.h>

#include <system_error>

namespace hocket {

namespace fs = std::filesystem;

fs::path own_file() {
    Dl_info info{};
    void* loaded = nullptr;
    if (dladdr1(reinterpret_cast<const void*>(&own_file), &info, &loaded, RTLD_DL_LINKMAP) == 0) return {};
    // The loader has no path for the program itself. dladdr gives what it was called as, which need not be
    // one.
    const bool is_program = loaded == nullptr || *static_cast<const link_map*>(loaded)->l_name == '\0';
    std::error_code ignored;
    return fs::weakly_canonical(is_program ? "/proc/self/exe" : info.dli_fname, ignored);
}

std::vector<fs::path> places_of(const fs::path& relative) {
    std::vector<fs::path> places;
    fs::path prefix = own_file().parent_path();
    for (int up = 0; up < 2 && prefix.has_relative_path(); ++up) {
        prefix = prefix.parent_path();
        places.push_back(prefix / relative);
    }
    return places;
}

std::vector<PluginPlace> plugin_places(const std::string& file_name) {
    std::vector<PluginPlace> places;
    if (const fs::path self = own_file(); !self.empty())
        places.push_back({"beside Hocket", self.parent_path() / file_name});
    for (const fs::path& folder : places_of(HOCKET_PLUGIN_FOLDER))
        places.push_back({"as it is installed", folder / file_name});
    places.push_back({"by the loader's path", file_name});
    return places;
}

}  // namespace hocket
