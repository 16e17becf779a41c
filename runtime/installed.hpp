// Where Hocket lies on disk, and what was installed with it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hocket {

// The library or program that this code is in: an absolute path without links. Empty if the system does not
// say. Thread-safe.
std::filesystem::path own_file();

// Where a file or folder may lie that Meson installs as PREFIX/`relative`: under the folders that are one and
// two above own_file()'s, as lib/libhocket.so, lib/x86_64-linux-gnu/libhocket.so and bin/schedc have it. So
// an installation can be moved as a whole, and a build folder can look like one. The nearest is first;
// whether it exists is not looked at. Thread-safe.
std::vector<std::filesystem::path> places_of(const std::filesystem::path& relative);

// Where a plug-in is looked for: a library of Hocket's own that is loaded when it is first needed.
struct PluginPlace {
    const char* what;  // in an error's text, before the path
    std::string path;  // for dlopen
};

// Beside own_file(), then where Meson installs plug-ins (plugin_dir in meson.build), then by the loader's
// path. The first that can be loaded is to be taken. Thread-safe.
std::vector<PluginPlace> plugin_places(const std::string& file_name);

}  // namespace hocket
