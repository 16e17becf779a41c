#include "runtime/plugin.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

#include "runtime/installed.hpp"

namespace hocket {
namespace {

[[noreturn]] void refuse_plugin(const PluginKind& kind, const std::string& why) {
    throw Error(kind.status, fmt::format("{}: {}. {}, and installs both together; {}, if set, must be "
                                         "the path of it",
                                         kind.purpose, why, kind.origin, kind.variable));
}

std::string why_not() {
    const char* why = dlerror();
    return why == nullptr ? "unknown reason" : why;
}

void* open(const std::string& path) {
    return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

Plugin::Plugin(const PluginKind& kind, void* handle, std::string path)
    : kind_(kind), handle_(handle), path_(std::move(path)) {}

Plugin Plugin::load(const PluginKind& kind) {
    const char* const chosen = std::getenv(kind.variable);
    if (chosen != nullptr && *chosen != '\0') {
        if (void* const handle = open(chosen)) return Plugin(kind, handle, chosen);
        refuse_plugin(kind, fmt::format("{} is {}: {}", kind.variable, chosen, why_not()));
    }
    std::string reasons;
    for (const auto& [what, path] : plugin_places(kind.file_name)) {
        if (void* const handle = open(path)) return Plugin(kind, handle, path);
        reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", what, why_not());
    }
    refuse_plugin(kind, reasons);
}

void* Plugin::address_of(const char* symbol) const {
    void* const address = dlsym(handle_, symbol);
    if (address == nullptr)
        refuse_plugin(kind_, fmt::format("{} has no {}: it is of another version of Hocket", path_, symbol));
    return address;
}

void Plugin::refuse_version(const std::string& own, const std::string& wanted) const {
    refuse_plugin(
        kind_, fmt::format("{} has version {} of its interface, and version {} is needed: it is of another "
                           "version of Hocket",
                           path_, own, wanted));
}

}  // namespace hocket
