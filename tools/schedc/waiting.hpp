// Shows on a terminal how far a long command is.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "dsl/base/deadline.hpp"
#include "tools/terminal_line.hpp"

namespace hocket::tools {

// Returns "point 3 of 40; predicting: 43 %, 12 s". point: from 1 on; 0: there are none. doing, done, all: as
// in dsl::Watcher.
std::string waiting_text(std::size_t point, std::size_t points, std::string_view doing, std::uint64_t done,
                         std::uint64_t all, std::chrono::duration<double> elapsed);

// Draws nothing before `patience` has passed, and nothing where stderr is no terminal. For one thread.
class Waiting final : public dsl::Watcher {
  public:
    explicit Waiting(std::chrono::milliseconds patience = std::chrono::seconds(2))
        : next_(start_ + patience) {}

    void look(std::string_view doing, std::uint64_t done, std::uint64_t all) override;
    // For a command that predicts several points: their number, before the first one begins.
    void expect(std::size_t points) { points_ = points; }
    void begin_point() { ++point_; }
    void end() { line_.clear(); }  // before anything is printed

  private:
    using Clock = std::chrono::steady_clock;

    const Clock::time_point start_ = Clock::now();
    Clock::time_point next_;
    TerminalLine line_;
    std::size_t point_ = 0, points_ = 0;
};

}  // namespace hocket::tools
