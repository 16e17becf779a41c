#include "runtime/plugin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>
#include <utility>
#include <vector>

#include "runtime/installed.hpp"

namespace hocket {
namespace {

const char* why_not() {
    const char* why = dlerror();
    return why == nullptr ? "unknown reason" : why;
}

// What is said of a place, and the place.
std::vector<std::pair<const char*, std::string>> places_for(const std::string& file_name) {
    std::vector<std::pair<const char*, std::string>> places;
    if (const auto self = own_file(); !self.empty())
        places.emplace_back("beside Hocket", self.parent_path() / file_name);
    for (const auto& place : places_of(HOCKET_PLUGIN_FOLDER))
        places.emplace_back("as it is installed", place / file_name);
    places.emplace_back("by the loader's path", file_name);
    return places;
}

}  // namespace

Plugin open_plugin(const std::string& file_name, const char* variable) {
    const auto open = [](const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); };
    const char* const chosen = std::getenv(variable);
    if (chosen != nullptr && *chosen != '\0') {
        if (void* handle = open(chosen)) return {handle, chosen};
        throw std::runtime_error(fmt::format("{} is {}: {}", variable, chosen, why_not()));
    }
    std::string reasons;
    for (const auto& [where, path] : places_for(file_name)) {
        if (void* handle = open(path)) return {handle, path};
        reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", where, why_not());
    }
    throw std::runtime_error(reasons);
}

}  // namespace hocket
