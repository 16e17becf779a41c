// Where Hocket lies on disk, and what was installed with it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hocket {

// The library or program that this code is in: an absolute path without links. Empty if the system does not
// say. Thread-safe.
std::filesystem::path own_file();

// The folder that Hocket is installed below, if own_file() lies where Meson installs libraries or programs:
// PREFIX/lib/x86_64-linux-gnu, PREFIX/lib or PREFIX/bin. So an installation can be moved as a whole. Folders
// above the prefix may be anybody's, as in /tmp, and are none of Hocket's. Thread-safe.
std::optional<std::filesystem::path> own_prefix();

// Where a file or folder lies that Meson installs as PREFIX/`relative`. Without a prefix it is the folder
// above own_file()'s that counts as one: so a build folder can look like an installation. Only for what is
// not run as it is found. Whether it exists is not looked at. Thread-safe.
std::filesystem::path installed_place(const std::filesystem::path& relative);

// Where a plug-in is looked for: a library of Hocket's own that is loaded when it is first needed.
struct PluginPlace {
    const char* what;  // in an error's text, before the path
    std::string path;  // for dlopen
};

// Beside own_file(), then where Meson installs plug-ins (plugin_dir in meson.build) if there is a prefix,
// then by the loader's path. The first that can be loaded is to be taken. Thread-safe.
std::vector<PluginPlace> plugin_places(const std::string& file_name);

}  // namespace hocket
