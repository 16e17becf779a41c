// Parts of Hocket that are libraries of their own, and are loaded when they are first needed: those need what
// a process without them does not (CUDA, for example).
#pragma once

#include <string>

namespace hocket {

struct Plugin {
    void* handle;      // for dlsym; never closed
    std::string path;  // as it was loaded
};

// Loads the library from the path in the environment variable, if that is set. Otherwise it is looked for
// beside own_file(), then where Meson installs it (plugin_dir in meson.build), then by the loader's path.
// Throws std::runtime_error with all places and why nothing could be loaded there. Thread-safe.
Plugin open_plugin(const std::string& file_name, const char* variable);

}  // namespace hocket
