// schedc check: proves the definitions of files.
#pragma once

#include <string>
#include <vector>

#include "dsl/planning/check_files.hpp"
#include "tools/schedc/messages.hpp"

namespace hocket::tools {

struct CheckRequest {
    dsl::CheckOptions options;      // its files may be folders, and "-"
    std::vector<std::string> with;  // "radix=2,3,8"
    bool is_strict = false;         // warnings count as errors do
    MessageOptions messages;
};

// Reads "radix=2,3,8" or "gather=ring,tree(2, 3)". Throws DiagnosticError.
dsl::GivenValues parse_with(const std::string& text);

// Returns 0 if all definitions are right, and strictly without a warning; otherwise 1.
int run_check(CheckRequest request);

}  // namespace hocket::tools
