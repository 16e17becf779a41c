// Lines for people, on stderr, beside what a program is there for. Nothing fails because one cannot be
// written: these functions don't throw, don't let SIGPIPE end the process, and give up where nobody reads.
// Thread-safe.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <utility>

namespace hocket {

// How long the runtime waits for whoever reads stderr: others may wait for this rank meanwhile.
inline constexpr std::chrono::milliseconds log_patience{100};
inline constexpr std::chrono::milliseconds endless_patience{-1};  // of tools, for what their user waits for

// Up to 4 KiB (PIPE_BUF) come out in one piece, whoever else writes there. patience: with a reader who is
// behind. What cannot be written is lost.
void write_log(std::string_view text, std::chrono::milliseconds patience) noexcept;

// A line; the end of it is added.
template <typename... Args>
void log_line(fmt::format_string<Args...> format, Args&&... args) noexcept {
    try {
        write_log(fmt::format(format, std::forward<Args>(args)...) + "\n", log_patience);
    } catch (...) {  // no memory for it
    }
}

}  // namespace hocket
