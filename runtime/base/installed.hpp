// Finds where Hocket is on disk, and what was installed with it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hocket {

// Returns the library or program that contains this code: an absolute path without links. Empty if the system
// does not provide it. Thread-safe.
std::filesystem::path own_file();

// Returns the folder below which Hocket is installed, if own_file() lies where Meson installs libraries or
// programs: PREFIX/lib/x86_64-linux-gnu, PREFIX/lib or PREFIX/bin. So an installation can be moved as a
// whole. Folders outside the prefix may be anybody's, as in /tmp, and are not considered. Thread-safe.
std::optional<std::filesystem::path> own_prefix();

// Returns the path of a file or folder that Meson installs as PREFIX/`relative`. Without a prefix, the folder
// above own_file()'s is taken for it, so that a build folder can look like an installation. Do not use it to
// find files to execute. Does not check that the path exists. Thread-safe.
std::filesystem::path installed_place(const std::filesystem::path& relative);

// A place to look for a plug-in: one of Hocket's own libraries, loaded on first use.
struct PluginPlace {
    const char* what;  // precedes the path in an error's text
    std::string path;  // for dlopen
};

// Returns, in the order in which to try them: the folder of own_file(), the folder where Meson installs
// plug-ins (plugin_dir in meson.build) if there is a prefix, and the loader's path. Thread-safe.
std::vector<PluginPlace> plugin_places(const std::string& file_name);

}  // namespace hocket
