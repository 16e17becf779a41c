// What must hold of every formatted text.
#pragma once

#include <string>

#include "dsl/base/source.hpp"

namespace hocket::test {

// Formats a text that parses. Returns "", or what is wrong with the result: another program, other comments,
// more than one blank line, or a layout that is not final.
std::string format_fault(const dsl::SourceFile& file);

}  // namespace hocket::test
