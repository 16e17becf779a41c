// schedc lsp: a language server on standard input and output.
#pragma once

#include <string>
#include <vector>

namespace hocket::tools {

// Returns when the editor ends the conversation: 0, or 1 if it did so without a word. Throws
// lsp::FramingError if its messages cannot be told apart.
int run_language_server(const std::vector<std::string>& search_path);

}  // namespace hocket::tools
