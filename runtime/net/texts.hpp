// What texts for people are put together from.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::transport {

// "60 s", "0.5 s".
std::string seconds_text(std::chrono::milliseconds duration);

// "rank 3", "ranks 1, 2 and 7"; long lists are cut.
std::string ranks_text(const std::vector<int>& ranks);

// A text that came from a process not yet trusted, fit for a terminal.
std::string printable(std::string_view text);

}  // namespace hocket::transport
