#include "runtime/transport/net/texts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::transport {

std::string seconds_text(std::chrono::milliseconds duration) {
    return fmt::format("{:g} s", static_cast<double>(duration.count()) / 1000.0);
}

std::string ranks_text(const std::vector<int>& ranks) {
    if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
    constexpr std::size_t shown = 16;
    std::string text = "ranks ";
    for (std::size_t i = 0; i < std::min(ranks.size(), shown); ++i) {
        if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
        text += std::to_string(ranks[i]);
    }
    if (ranks.size() > shown) text += fmt::format(" and {} more", ranks.size() - shown);
    return text;
}

std::string printable(std::string_view text) {
    std::string clean(text.substr(0, 1000));
    for (char& c : clean)
        if (c < ' ' || c > '~') c = '?';
    return clean;
}

std::string all_ranks_text(const std::vector<int>& ranks) {
    std::string runs;
    for (std::size_t i = 0; i < ranks.size();) {
        std::size_t end = i + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
        if (!runs.empty()) runs += ", ";
        runs += end - i == 1 ? std::to_string(ranks[i]) : fmt::format("{}-{}", ranks[i], ranks[end - 1]);
        i = end;
    }
    return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", runs);
}

}  // namespace hocket::transport
