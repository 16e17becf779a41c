#include "runtime/base/plugin.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "dsl/base/named_file.hpp"
#include "runtime/base/installed.hpp"

namespace hocket {
namespace {

[[noreturn]] void refuse_plugin(const PluginKind& kind, const std::string& why) {
    throw Error(kind.status, fmt::format("{}: {}. {}, and installs both together; {}, if set, must be "
                                         "the path of it",
                                         kind.purpose, why, kind.origin, kind.variable));
}

}  // namespace

void* open_library(const std::string& name, std::string& why) {
    if (name.find('/') != std::string::npos) {
        const int file = open_regular(name, O_RDONLY);
        if (file == -irregular_file) return why = refusal_text(name, irregular_file), nullptr;
        if (file >= 0) close(file);
    }
    void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return handle;
    const char* const reason = dlerror();
    return why = reason == nullptr ? "unknown reason" : reason, nullptr;
}

Plugin::Plugin(const PluginKind& kind, void* handle, std::string path)
    : kind_(kind), handle_(handle), path_(std::move(path)) {}

Plugin Plugin::load(const PluginKind& kind) {
    std::string why;
    const char* const chosen = std::getenv(kind.variable);
    if (chosen != nullptr && *chosen != '\0') {
        if (void* const handle = open_library(chosen, why)) return Plugin(kind, handle, chosen);
        refuse_plugin(kind, fmt::format("{} is {}: {}", kind.variable, chosen, why));
    }
    std::string reasons;
    for (const auto& [what, path] : plugin_places(kind.file_name)) {
        if (void* const handle = open_library(path, why)) return Plugin(kind, handle, path);
        reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", what, why);
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
