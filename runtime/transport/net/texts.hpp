// Parts of texts for people.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::transport {

// Returns, for example, "60 s" or "0.5 s".
std::string seconds_text(std::chrono::milliseconds duration);

// Returns, for example, "rank 3" or "ranks 1, 2 and 7"; long lists are cut.
std::string ranks_text(const std::vector<int>& ranks);

// Returns, for example, "rank 3" or "ranks 0-3, 5", with all ranks.
std::string all_ranks_text(const std::vector<int>& ranks);

// Makes a text from an untrusted process safe to print on a terminal.
std::string printable(std::string_view text);

}  // namespace hocket::transport
