// Addresses on a command line.
#pragma once

#include <string>

namespace hocket::tools {

// Parses "HOST:PORT", "[IPV6]:PORT" or ":PORT" (all addresses). Throws std::invalid_argument, which says what
// is wrong.
void parse_address(const std::string& text, std::string& host, int& port);

}  // namespace hocket::tools
