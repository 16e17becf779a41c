#include "runtime/plugin.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

namespace hocket {
namespace {

[[noreturn]] void refuse(const PluginKind& kind, const std::string& why) {
    throw Error(kind.status,
                fmt::format("{}: {}. {}, and installs it beside libhocket.so; {}, if set, must be "
                            "the path of it",
                            kind.purpose, why, kind.origin, kind.variable));
}

std::string why_not() {
    const char* why = dlerror();
    return why == nullptr ? "unknown reason" : why;
}

// "" if that is not known.
std::string own_folder() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&own_folder), &info) == 0 || info.dli_fname == nullptr) return "";
    const std::string path = info.dli_fname;
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
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
        refuse(kind, fmt::format("{} is {}: {}", kind.variable, chosen, why_not()));
    }
    std::string reasons;
    if (const std::string folder = own_folder(); !folder.empty()) {
        const std::string beside = fmt::format("{}/{}", folder, kind.file_name);
        if (void* const handle = open(beside)) return Plugin(kind, handle, beside);
        reasons = fmt::format("beside Hocket: {}; ", why_not());
    }
    if (void* const handle = open(kind.file_name)) return Plugin(kind, handle, kind.file_name);
    refuse(kind, fmt::format("{}by the loader's path: {}", reasons, why_not()));
}

void* Plugin::address_of(const char* symbol) const {
    void* const address = dlsym(handle_, symbol);
    if (address == nullptr)
        refuse(kind_, fmt::format("{} has no {}: it is of another version of Hocket", path_, symbol));
    return address;
}

void Plugin::refuse_version(const std::string& own, const std::string& wanted) const {
    refuse(kind_,
           fmt::format("{} has version {} of its interface, and version {} is needed: it is of another "
                       "version of Hocket",
                       path_, own, wanted));
}

}  // namespace hocket
