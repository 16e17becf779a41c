#include "tools/cache/progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/cache/texts.hpp"

namespace hocket::cache_tool {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds redraw_every = 100ms, line_every = 10s, rate_over = 10s;
constexpr std::size_t longest_bar = 40, shortest_bar = 10;
constexpr std::size_t usual_text = 56;  // keeps the bar's length while the figures grow

std::string bar(double share, std::size_t width) {
    const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
    return fmt::format("[{}{}] ", std::string(full, '='), std::string(width - full, ' '));
}

}  // namespace

std::string progress_line(const Step& step, double rate, std::chrono::duration<double> left,
                          std::size_t columns, bool with_bar) {
    const double share =
        step.all == 0 ? 1 : std::min(1.0, static_cast<double>(step.done) / static_cast<double>(step.all));
    std::string text = fmt::format("{:3.0f} %  {}  {}  {}/s", share * 100, count_text(step.samples, "sample"),
                                   bytes_text(static_cast<double>(step.bytes)), bytes_text(rate));
    if (left.count() > 0)
        text += fmt::format("  {} left", duration_text(std::chrono::ceil<std::chrono::seconds>(left)));
    const std::size_t most = std::max<std::size_t>(columns, 1) - 1;
    const std::size_t room = most - std::min(most, std::max(text.size(), usual_text) + 3);  // "[", "] "
    if (with_bar && room >= shortest_bar) text = bar(share, std::min(room, longest_bar)) + text;
    return text.substr(0, most);
}

Progress::Progress() : next_(Clock::now() + (line_.is_on_terminal() ? 0ms : line_every)) {}

void Progress::show(const Step& step) {
    const auto now = Clock::now();
    if (recent_.empty() || now - recent_.back().time >= redraw_every) recent_.push_back({now, step});
    while (now - recent_.front().time > rate_over) recent_.pop_front();
    if (now < next_) return;
    next_ = now + (line_.is_on_terminal() ? redraw_every : line_every);

    const Moment& before = recent_.front();
    const double seconds = std::chrono::duration<double>(now - before.time).count();
    const auto per_second = [&](std::uint64_t from, std::uint64_t to) {
        return seconds > 0 ? static_cast<double>(to - from) / seconds : 0;
    };
    const double speed = per_second(before.step.done, step.done);
    const std::chrono::duration<double> left(
        speed > 0 ? static_cast<double>(step.all - std::min(step.all, step.done)) / speed : 0);
    line_.draw(progress_line(step, per_second(before.step.bytes, step.bytes), left, line_.columns(),
                             line_.is_on_terminal()));
}

}  // namespace hocket::cache_tool
