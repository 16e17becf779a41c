// Writes rounds in Hocket's language.
#pragma once

#include <string>
#include <vector>

#include "tools/schedc/imports/rounds.hpp"

namespace hocket::tools::imports {

// The name of the algorithm and of the schedule that runs it: the file's own, as far as a name can have its
// characters.
std::string name_for(const Algorithm& algorithm);

// The text of a schedule file, in the style of `schedc fmt`. Comments name the steps of each line.
std::string text_of(const Algorithm& algorithm, const std::vector<Round>& rounds);

}  // namespace hocket::tools::imports
