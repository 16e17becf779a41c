// The option --version, alike in all tools. For sources that are compiled with HOCKET_VERSION.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace hocket::tools {

inline void add_version(CLI::App& app, const std::string& tool) {
    app.set_version_flag("--version", tool + " " HOCKET_VERSION, "print the version, and exit");
}

}  // namespace hocket::tools
