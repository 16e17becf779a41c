// A line at the end of what a terminal shows, which is redrawn while work goes on.
#pragma once

#include <cstddef>
#include <string_view>

namespace hocket::tools {

// For stderr. Text is dropped rather than waited for: a slow reader must not hold up the work. For one
// thread.
class TerminalLine {
  public:
    TerminalLine();
    ~TerminalLine() { clear(); }
    TerminalLine(const TerminalLine&) = delete;
    TerminalLine& operator=(const TerminalLine&) = delete;

    bool is_on_terminal() const { return is_terminal_; }
    std::size_t columns() const;  // that text may have; many where there is no terminal
    // Replaces the line, on a terminal; elsewhere writes one more line.
    void draw(std::string_view text);
    void clear();  // removes it from a terminal

  private:
    const bool is_terminal_;
    bool is_drawn_ = false;
};

}  // namespace hocket::tools
