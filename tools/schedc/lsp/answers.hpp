// What an editor asks about a text, answered as the protocol has it.
#pragma once

#include "dsl/elaboration/library.hpp"
#include "tools/schedc/lsp/document.hpp"

namespace hocket::tools::lsp {

// library: the definitions of other files. All return null where there is nothing to say.
Json hover(const Document& document, std::size_t offset, const dsl::Library& library);
Json definition(const Document& document, std::size_t offset, const dsl::Library& library);
Json completion(const Document& document, std::size_t offset, const dsl::Library& library);
Json document_symbols(const Document& document);
Json formatting(const Document& document);  // of a text that does not parse, null

}  // namespace hocket::tools::lsp
