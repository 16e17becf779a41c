// Libraries of Hocket's own that are loaded when they are first needed: what few processes need, and what
// would cost all of them time or memory to be linked with. They are installed with libhocket.so, in a folder
// of their own.
//
// No exception leaves such a library: it may have a copy of its own of all types, and then nobody would know
// what is caught.
#pragma once

#include <fmt/format.h>

#include <string>

#include "runtime/base/error.hpp"

namespace hocket {

// dlopen(3) of what may be a path. It does not wait for the other end of a FIFO. Null: `why` says why not.
void* open_library(const std::string& name, std::string& why);

// One of these libraries. All texts live as long as the process.
struct PluginKind {
    const char* file_name;  // "libhocket_jit.so"
    const char* variable;   // of the environment: the path of the file, if it is set
    Status status;          // of errors
    const char* purpose;    // "plans cannot be compiled": how errors begin
    const char* origin;     // "Meson builds it where ...": where the file comes from
};

class Plugin {
  public:
    // From the path in the environment variable; without it from the first of plugin_places() that can be
    // loaded. It is never unloaded. All functions throw hocket::Error with the files that were tried, and why
    // each was refused.
    static Plugin load(const PluginKind& kind);

    const std::string& path() const { return path_; }  // as it was loaded

    template <typename Function>
    void find(const char* symbol, Function& function) const {
        function = reinterpret_cast<Function>(address_of(symbol));
    }

    // symbol: a function without parameters that returns the version of what the library offers.
    template <typename Version>
    void require_version(const char* symbol, Version needed) const {
        Version (*version)() = nullptr;
        find(symbol, version);
        const std::string own = fmt::format("{}", version()), wanted = fmt::format("{}", needed);
        if (own != wanted) refuse_version(own, wanted);
    }

  private:
    Plugin(const PluginKind& kind, void* handle, std::string path);

    void* address_of(const char* symbol) const;
    [[noreturn]] void refuse_version(const std::string& own, const std::string& wanted) const;

    PluginKind kind_;
    void* handle_;
    std::string path_;
};

}  // namespace hocket
