// The words of the language.
#pragma once

#include <algorithm>
#include <iterator>
#include <string_view>

namespace hocket::dsl {

// Words that cannot be names.
inline constexpr std::string_view reserved[] = {
    "algorithm", "schedule", "topology", "level",    "for",         "each",  "in",   "where", "over",
    "using",     "from",     "to",       "parallel", "let",         "and",   "or",   "not",   "xor",
    "mod",       "of",       "state",    "operator", "approximate", "lossy", "with", "like",  "partition",
    "if",        "then",     "else",     "as",       "keeping",     "import"};

inline bool is_reserved(std::string_view word) {
    return std::find(std::begin(reserved), std::end(reserved), word) != std::end(reserved);
}

}  // namespace hocket::dsl
