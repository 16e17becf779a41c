#include "tools/texts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace hocket::tools {

std::string bytes_text(double bytes) {
    constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    std::size_t unit = 0;
    for (; bytes >= 1023.95 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
    return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{:.1f} {}", bytes, units[unit]);
}

std::string duration_text(std::chrono::duration<double> time) {
    if (time.count() < 9.95) return fmt::format("{:.1f} s", time.count());
    const auto seconds = static_cast<std::uint64_t>(std::llround(std::min(time.count(), 1e12)));
    if (seconds < 60) return fmt::format("{} s", seconds);
    if (seconds < 3600) return fmt::format("{} m {} s", seconds / 60, seconds % 60);
    return fmt::format("{} h {} m", seconds / 3600, seconds / 60 % 60);
}

std::string count_text(std::uint64_t count, const char* one) {
    return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

}  // namespace hocket::tools
