// A text that an editor has open.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dsl/base/diagnostic.hpp"
#include "dsl/base/source.hpp"
#include "tools/schedc/lsp/positions.hpp"
#include "tools/schedc/lsp/symbols.hpp"

namespace hocket::tools::lsp {

using Json = nlohmann::json;

class Document {
  public:
    Document(std::string uri, std::string text);

    const std::string& uri() const { return uri_; }
    const dsl::SourceFile& source() const { return source_; }  // a URI that is no file's is called <stdin>
    const Symbols& symbols() const { return symbols_; }
    std::size_t offset_of(EditorPosition position) const { return lines_.offset_of(source_.text, position); }
    Json range(std::size_t begin, std::size_t end) const;
    Json whole_range() const { return range(0, source_.text.size()); }

    // Replaces a part, or all of it: what didChange says.
    void change(const Json& change);

    // Returns what the protocol calls diagnostics: of the text's grammar, and of a proof of it.
    std::vector<Json> syntax_faults() const;
    Json fault(const dsl::Report& report) const;

  private:
    Json range_of(const dsl::Place& place) const;

    std::string uri_;
    dsl::SourceFile source_;
    LineIndex lines_;
    Symbols symbols_;
};

// Reads {"line": 3, "character": 7}. Throws nlohmann's exceptions.
EditorPosition position_from(const Json& json);

}  // namespace hocket::tools::lsp
