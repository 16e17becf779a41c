// Pieces of texts for people.
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

// "rank 3", "ranks 0-3, 5": all of them.
std::string all_ranks_text(const std::vector<int>& ranks);

// Makes a text that came from an untrusted process safe to print on a terminal.
std::string printable(std::string_view text);

}  // namespace hocket::transport
