// Where Hocket lies on disk, and what was installed with it.
#pragma once

#include <filesystem>
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

}  // namespace hocket
