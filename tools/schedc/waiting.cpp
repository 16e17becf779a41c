#include "tools/schedc/waiting.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/texts.hpp"

namespace hocket::tools {

std::string waiting_text(std::size_t point, std::size_t points, std::string_view doing, std::uint64_t done,
                         std::uint64_t all, std::chrono::duration<double> elapsed) {
    const std::string text = point > 0 ? fmt::format("point {} of {}; ", point, points) : "";
    if (all == 0) return fmt::format("{}{}, {}", text, doing, duration_text(elapsed));
    // Its first word: finer steps alternate faster than they can be read.
    return fmt::format("{}{}: {:.0f} %, {}", text, doing.substr(0, doing.find_first_of(": ")),
                       100 * static_cast<double>(std::min(done, all)) / static_cast<double>(all),
                       duration_text(elapsed));
}

void Waiting::look(std::string_view doing, std::uint64_t done, std::uint64_t all) {
    if (!line_.is_on_terminal()) return;
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + std::chrono::milliseconds(100);
    line_.draw(waiting_text(point_, points_, doing, done, all, now - start_));
}

}  // namespace hocket::tools
