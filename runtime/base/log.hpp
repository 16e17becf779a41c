// Writes lines for people to stderr, beside a program's real output. A line that cannot be written causes no
// failure: these functions don't throw, don't let SIGPIPE end the process, and give up if nobody reads.
// Thread-safe.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <utility>

namespace hocket {

// How long the runtime waits for the reader of stderr. Kept short because other ranks may wait for this one
// meanwhile.
inline constexpr std::chrono::milliseconds log_patience{100};
inline constexpr std::chrono::milliseconds endless_patience{-1};  // for tools, whose user waits for the line

// Up to 4 KiB (PIPE_BUF) are written atomically, even if others write to the same pipe. patience: how long to
// wait for a slow reader. Text that cannot be written is lost.
void write_log(std::string_view text, std::chrono::milliseconds patience) noexcept;

// Writes a line; adds the line break.
template <typename... Args>
void log_line(fmt::format_string<Args...> format, Args&&... args) noexcept {
    try {
        write_log(fmt::format(format, std::forward<Args>(args)...) + "\n", log_patience);
    } catch (...) {  // out of memory
    }
}

}  // namespace hocket
