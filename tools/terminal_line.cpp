#include "tools/terminal_line.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runtime/base/log.hpp"

namespace hocket::tools {

TerminalLine::TerminalLine() : is_terminal_(isatty(STDERR_FILENO) == 1) {}

std::size_t TerminalLine::columns() const {
    if (!is_terminal_) return 200;
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void TerminalLine::draw(std::string_view text) {
    write_log(fmt::format("{}{}{}", is_terminal_ ? "\r" : "", text.substr(0, columns() - 1),
                          is_terminal_ ? "\x1b[K" : "\n"),
              log_patience);
    is_drawn_ = is_terminal_;
}

void TerminalLine::clear() {
    if (is_drawn_) write_log("\r\x1b[K", log_patience);
    is_drawn_ = false;
}

}  // namespace hocket::tools
