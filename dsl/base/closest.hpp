// Finds the name that a misspelled one stands for, for errors.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::dsl {

// Returns the fewest changes of one character, or exchanges of two neighbours, that make one of the other:
// the optimal string alignment distance.
std::size_t changes_between(std::string_view a, std::string_view b);

// Returns " (did you mean 'ring'?)" for "rnig": the name that takes the fewest changes of one character, or
// exchanges of two neighbours. Returns "" if all names take more than a third of the text's characters, and
// for a single letter, which any other one is close to.
std::string did_you_mean(std::string_view text, const std::vector<std::string>& names);

}  // namespace hocket::dsl
