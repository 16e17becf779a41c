#include "dsl/base/diagnostic.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/readable.hpp"

namespace hocket::dsl {
namespace {

// Returns the source line, with a marker under the part that the span covers.
std::string excerpt(Span span) {
    const Position position = position_of(*span.file, span.begin);
    const std::string line(line_of(*span.file, span.begin));
    const std::size_t start = position.column - 1;
    std::string marker;
    for (std::size_t i = 0; i < start && i < line.size(); ++i) marker += line[i] == '\t' ? '\t' : ' ';
    const std::size_t room = line.size() > start ? line.size() - start : 1;
    const std::size_t length =
        std::clamp<std::size_t>(span.end - span.begin, 1, std::max<std::size_t>(room, 1));
    marker += '^' + std::string(length - 1, '~');
    return fmt::format("{:5} | {}\n      | {}\n", position.line, line, marker);
}

std::string place(Span span) {
    const Position position = position_of(*span.file, span.begin);
    return fmt::format("{}:{}:{}: ", span.file->path, position.line, position.column);
}

}  // namespace

std::string render(const Diagnostic& diagnostic) {
    std::string text;
    if (diagnostic.span.file) text += place(diagnostic.span);
    text += "error: " + diagnostic.message + "\n";
    if (diagnostic.span.file) text += excerpt(diagnostic.span);
    for (const Note& note : diagnostic.notes) {
        if (note.span.file) text += place(note.span);
        text += "note: " + note.text + "\n";
        if (note.span.file) text += excerpt(note.span);
    }
    if (!diagnostic.hint.empty()) text += "hint: " + diagnostic.hint + "\n";
    if (!text.empty()) text.pop_back();  // the caller adds the last line break
    return readable(text);
}

}  // namespace hocket::dsl
