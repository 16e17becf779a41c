// What the tools have in common: the streams that they are started with. What a tool is asked for goes to
// stdout and must arrive there; what it says besides goes to stderr, and never fails anything.
#pragma once

#include <functional>
#include <utility>

#include "runtime/log.hpp"

namespace hocket::tools {

// A line on stderr, for which a slow reader is waited for. Never throws.
template <typename... Args>
void say(fmt::format_string<Args...> format, Args&&... args) noexcept {
    try {
        write_log(fmt::format(format, std::forward<Args>(args)...) + "\n", endless_patience);
    } catch (...) {  // no memory for it
    }
}

// The whole of main(): the exit code is what run() returns; 1 if it throws, and 1 instead of 0 if not all of
// stdout could be written. stderr has the reason, after the tool's name.
int run_tool(const char* name, const std::function<int()>& run);

// What was printed so far, now. Throws std::system_error where stdout does not take it.
void flush_output();

}  // namespace hocket::tools
