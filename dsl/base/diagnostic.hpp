// The compiler's messages for a schedule that it refuses.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "dsl/base/source.hpp"

namespace hocket::dsl {

struct Note {
    Span span;  // may be empty
    std::string text;
};

struct Diagnostic {
    Span span;  // may be empty: the message then stands alone
    std::string message;
    std::vector<Note> notes;
    std::string hint;
};

// Returns "file:line:column: error: message", the source line with a caret, the notes and the hint. No
// colours.
std::string render(const Diagnostic& diagnostic);

// what() returns the rendered text.
class DiagnosticError : public std::runtime_error {
  public:
    explicit DiagnosticError(Diagnostic diagnostic)
        : std::runtime_error(render(diagnostic)), diagnostic_(std::move(diagnostic)) {}
    DiagnosticError(Span span, std::string message, std::string hint = "")
        : DiagnosticError(Diagnostic{span, std::move(message), {}, std::move(hint)}) {}

    const Diagnostic& diagnostic() const { return diagnostic_; }

  private:
    Diagnostic diagnostic_;
};

// Thrown if an algorithm is asked to run on a group that its `where` rules out.
class ConditionError : public DiagnosticError {
  public:
    using DiagnosticError::DiagnosticError;
};

// Thrown for a schedule, topology or file that does not exist. what() says where it was looked for.
class NotFoundError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace hocket::dsl
