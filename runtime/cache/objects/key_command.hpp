// A program that writes keys: the credential_process of a profile.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace hocket::cache {

// Runs the command by /bin/sh and returns what has been written to its standard output when the shell ends;
// its errors go to this process's. The command gets no input, and a process group of its own, which is killed
// if the shell has not ended once the time is over, or is_ended() returns true, or more than a megabyte has
// been written. What a shell that ends by itself leaves behind goes on, whatever it holds open. Waits, and
// asks is_ended() a hundred times a second. Throws Error(io) that says how it ended, without what it wrote.
// Thread-safe.
std::string output_of_command(const std::string& command, std::chrono::milliseconds limit,
                              const std::function<bool()>& is_ended);

}  // namespace hocket::cache
