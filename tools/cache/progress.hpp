// Shows the progress of a long command: a bar on a terminal; elsewhere a line at intervals.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

#include "tools/terminal_line.hpp"

namespace hocket::cache_tool {

struct Step {
    std::uint64_t done, all;       // basis of the percentage and the time left
    std::uint64_t samples, bytes;  // for people
};

// rate: bytes per second. columns: the line is shorter than that. with_bar: false for only the figures.
std::string progress_line(const Step& step, double rate, std::chrono::duration<double> left,
                          std::size_t columns, bool with_bar);

// Writes to stderr: on a terminal one line that is redrawn at most ten times a second; elsewhere a line every
// ten seconds. For one thread.
class Progress {
  public:
    Progress();
    void show(const Step& step);  // does nothing if the last time was recent
    void clear() { line_.clear(); }

  private:
    using Clock = std::chrono::steady_clock;
    struct Moment {
        Clock::time_point time;
        Step step;
    };

    tools::TerminalLine line_;
    Clock::time_point next_;
    std::deque<Moment> recent_;  // of the last ten seconds, for the rate
};

}  // namespace hocket::cache_tool
