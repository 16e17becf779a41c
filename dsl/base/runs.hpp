// Texts of long lists of ranks or sizes.
#pragma once

#include <string>
#include <vector>

#include "dsl/base/collective.hpp"

namespace hocket::dsl {

// Returns "1 to 5", "8", "9" for 1, 2, 3, 4, 5, 8, 9: runs of at least three numbers are one text.
std::vector<std::string> runs_of(const std::vector<Rank>& numbers);

}  // namespace hocket::dsl
