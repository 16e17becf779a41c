// Says of a text that does not parse what was probably meant.
#pragma once

#include <string>

#include "dsl/base/diagnostic.hpp"

namespace hocket::dsl {

// offset: where the text stops being right. expected: what could stand there, in words.
Diagnostic explained(const SourceFile& file, std::uint32_t offset, const std::string& expected);

// Throws DiagnosticError for a text that is not UTF-8 without a byte order mark, as far as its beginning
// says.
void refuse_other_encodings(const SourceFile& file);

}  // namespace hocket::dsl
