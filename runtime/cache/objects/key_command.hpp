// A program that writes keys: the credential_process of a profile.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace hocket::cache {

// Runs the command by /bin/sh and returns all that it has written to its standard output; its errors go to
// this process's. The command gets no input, and a process group of its own, which is killed once the time is
// over, or is_ended() returns true, or it has written more than a megabyte. Waits, and asks is_ended() ten
// times a second. Throws Error(io) that says how it ended, without what it wrote. Thread-safe.
std::string output_of_command(const std::string& command, std::chrono::milliseconds limit,
                              const std::function<bool()>& is_ended);

}  // namespace hocket::cache
