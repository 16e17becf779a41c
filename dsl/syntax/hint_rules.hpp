// What a text that stops being right at a place should have said instead.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dsl/syntax/hint_site.hpp"

namespace hocket::dsl {

// Returns how to mend it, or "". rest: the text from the place on.
std::string hint_at(const Site& site, std::string_view rest);

// Returns "did you mean 'where'?" for a misspelled one of the words, or "".
std::string word_meant(std::string_view text, const std::vector<std::string>& words);

}  // namespace hocket::dsl
