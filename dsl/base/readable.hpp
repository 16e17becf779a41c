// Makes texts that any terminal can show and any reader of UTF-8 can read: names of files and variables may
// hold any bytes.
#pragma once

#include <string>
#include <string_view>

namespace hocket::dsl {

// Returns the text with a '?' for each control character that is not one of `kept`, and for each byte that is
// not UTF-8.
std::string readable(std::string_view text, std::string_view kept = "\n\t");

}  // namespace hocket::dsl
