// The compiler's messages: for a schedule that it refuses, and warnings.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
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
    // Index in the step graph of the step that it is about; -1: none, or nobody asks for its iteration.
    std::int64_t step = -1;
};

// A span's place, which outlives the text.
struct Place {
    std::string path;  // empty: nowhere
    Position begin, end;
    std::string line, last_line;  // the texts of the lines where it begins and ends
};
Place place_of(Span span);

// comment: one that allows warnings, and cannot be read. lossy: a statement that leaves out elements, which
// nothing keeps for later. needless: a transfer without an effect. unused: a name or an import that nothing
// uses.
inline constexpr std::array<std::string_view, 4> warning_rules = {"comment", "lossy", "needless", "unused"};

// A diagnostic that outlives the text.
struct Report {
    Place place;
    std::string message;
    std::vector<std::pair<Place, std::string>> notes;
    std::string hint;
    bool is_warning = false;            // nothing is refused
    std::string_view rule = "refused";  // of warnings: one of warning_rules
};
Report report_of(const Diagnostic& diagnostic);
Report warning_of(const Diagnostic& diagnostic, std::string_view rule);

// What to write before a part of a rendered report, as escapes of a terminal; all empty: no colours.
struct Palette {
    std::string_view error, warning, note, hint, place, plain;
};

// Returns "file:line:column: error: message" (or "warning[rule]: message"), the source line with a caret, the
// notes and the hint.
std::string render(const Report& report, const Palette& palette = {});
std::string render(const Diagnostic& diagnostic);

// what() returns the rendered text.
class DiagnosticError : public std::runtime_error {
  public:
    explicit DiagnosticError(Diagnostic diagnostic) : DiagnosticError(std::move(diagnostic), Report()) {}
    DiagnosticError(Span span, std::string message, std::string hint = "")
        : DiagnosticError(Diagnostic{span, std::move(message), {}, std::move(hint)}) {}

    const Diagnostic& diagnostic() const { return diagnostic_; }  // as long as its text lives
    const Report& report() const { return report_; }

  private:
    DiagnosticError(Diagnostic diagnostic, Report report)
        : std::runtime_error(render(report = report_of(diagnostic))),
          diagnostic_(std::move(diagnostic)),
          report_(std::move(report)) {}

    Diagnostic diagnostic_;
    Report report_;
};

// Thrown if an algorithm is asked to run on a group that its `where` rules out.
class ConditionError : public DiagnosticError {
  public:
    using DiagnosticError::DiagnosticError;
};

// Thrown for a schedule that has more steps or pieces than can be followed.
class TooLargeError : public DiagnosticError {
  public:
    using DiagnosticError::DiagnosticError;
};

// Thrown for a schedule, topology or file that does not exist. what() says where it was looked for.
class NotFoundError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace hocket::dsl
