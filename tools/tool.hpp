// The tools' common handling of the streams that they are started with. Requested output goes to stdout and
// must arrive there; everything else goes to stderr, and never makes a tool fail.
#pragma once

#include <functional>
#include <utility>

#include "runtime/base/log.hpp"

namespace hocket::tools {

// Writes a line to stderr; waits for a slow reader. Never throws.
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) noexcept {
    try {
        write_log(fmt::format(format, std::forward<Args>(args)...) + "\n", endless_patience);
    } catch (...) {  // out of memory
    }
}

// The body of main(). Returns the exit code: that of run(); 1 if run() throws, and 1 instead of 0 if not all
// of stdout could be written. The reason goes to stderr, after the tool's name.
int run_tool(const char* name, const std::function<int()>& run);

// Writes out what was printed so far. Throws std::system_error if that fails.
void flush_output();

}  // namespace hocket::tools
