// Hocket's own libraries that are loaded on first use: features that few processes need, and that would cost
// all processes time or memory if they were linked. They are installed with libhocket.so, in a separate
// folder.
//
// No exception may leave such a library: it may have its own copy of all types, and then no handler would
// match.
#pragma once

#include <fmt/format.h>

#include <string>

#include "runtime/base/error.hpp"

namespace hocket {

// Calls dlopen(3) with a name that may be a path. Does not wait for the other end of a FIFO. Returns null if
// that fails; `why` then has the reason.
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
    // Loads the library from the path in the environment variable; without it from the first of
    // plugin_places() that can be loaded. It is never unloaded. All functions throw hocket::Error with the
    // files that were tried, and why each was refused.
    static Plugin load(const PluginKind& kind);

    const std::string& path() const { return path_; }  // as it was loaded

    template <typename Function>
    void find(const char* symbol, Function& function) const {
        function = reinterpret_cast<Function>(address_of(symbol));
    }

    // symbol: a function without parameters that returns the version of the library's interface.
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
