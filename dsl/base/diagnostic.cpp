#include "dsl/base/diagnostic.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/base/readable.hpp"

namespace hocket::dsl {
namespace {

// Returns the source line, with a marker under the part that the place covers.
std::string excerpt(const Place& place, std::string_view colour, std::string_view plain) {
    const std::string& line = place.line;
    const std::size_t start = static_cast<std::size_t>(place.begin.column) - 1;
    std::string marker;
    for (std::size_t i = 0; i < start && i < line.size(); ++i) marker += line[i] == '\t' ? '\t' : ' ';
    const std::size_t room = line.size() > start ? line.size() - start : 1;
    // A stretch of several lines is marked to the end of its first.
    const std::size_t wanted = place.end.line > place.begin.line
                                   ? room
                                   : static_cast<std::size_t>(place.end.column - place.begin.column);
    const std::size_t length = std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(room, 1));
    return fmt::format("{:5} | {}\n      | {}{}^{}{}\n", place.begin.line, readable(line), marker, colour,
                       std::string(length - 1, '~'), plain);
}

// Returns a line of a report: where, what kind of line, and what it says.
std::string report_line(const Place& place, std::string_view kind, std::string_view colour,
                        const std::string& text, const Palette& palette) {
    std::string line;
    if (!place.path.empty())
        line = fmt::format("{}{}:{}:{}: {}", palette.place, readable(place.path), place.begin.line,
                           place.begin.column, palette.plain);
    line += fmt::format("{}{}: {}{}\n", colour, kind, palette.plain, readable(text));
    if (!place.path.empty()) line += excerpt(place, colour, palette.plain);
    return line;
}

}  // namespace

Place place_of(Span span) {
    if (!span.file) return {};
    const std::uint32_t end = std::max(span.begin, span.end);
    return {span.file->path, position_of(*span.file, span.begin), position_of(*span.file, end),
            std::string(line_of(*span.file, span.begin)), std::string(line_of(*span.file, end))};
}

Report report_of(const Diagnostic& diagnostic) {
    Report report{place_of(diagnostic.span), diagnostic.message, {}, diagnostic.hint};
    for (const Note& note : diagnostic.notes) report.notes.emplace_back(place_of(note.span), note.text);
    return report;
}

Report warning_of(const Diagnostic& diagnostic, std::string_view rule) {
    Report report = report_of(diagnostic);
    report.is_warning = true;
    report.rule = rule;
    return report;
}

std::string render(const Report& report, const Palette& palette) {
    std::string text = report.is_warning
                           ? report_line(report.place, fmt::format("warning[{}]", report.rule),
                                         palette.warning, report.message, palette)
                           : report_line(report.place, "error", palette.error, report.message, palette);
    for (const auto& [place, note] : report.notes)
        text += report_line(place, "note", palette.note, note, palette);
    if (!report.hint.empty()) text += report_line({}, "hint", palette.hint, report.hint, palette);
    text.pop_back();  // the caller adds the last line break
    return text;
}

std::string render(const Diagnostic& diagnostic) {
    return render(report_of(diagnostic));
}

}  // namespace hocket::dsl
