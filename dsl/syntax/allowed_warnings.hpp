// Warnings that a text allows by comments: "# schedc: allow lossy, unused".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/diagnostic.hpp"
#include "dsl/syntax/ast.hpp"

namespace hocket::dsl {

// Behind a statement a comment is for what stands in its line. In lines of its own it is for the line that
// follows, and if a definition begins there, for all of it.
class AllowedWarnings {
  public:
    // The file must have a definition or an import.
    explicit AllowedWarnings(const ast::File& file);

    bool has(const Report& warning) const;

    // Returns the comments for schedc that do not allow warnings, or none that exists.
    const std::vector<Diagnostic>& wrong() const { return wrong_; }

  private:
    struct Allowed {
        std::string_view rule;
        int first_line, last_line;
    };
    void add(const std::vector<Span>& words, int first_line, int last_line);

    std::vector<Allowed> allowed_;
    std::vector<Diagnostic> wrong_;
};

}  // namespace hocket::dsl
