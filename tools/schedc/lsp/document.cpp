#include "tools/schedc/lsp/document.hpp"

#include "dsl/base/readable.hpp"
#include "dsl/elaboration/library.hpp"
#include "dsl/syntax/parse.hpp"

namespace hocket::tools::lsp {
namespace {

constexpr int error_severity = 1, warning_severity = 2, information_severity = 3;

Json json_of(EditorPosition position) {
    return {{"line", position.line}, {"character", position.character}};
}

std::string name_of_uri(const std::string& uri) {
    const std::string path = path_of(uri);
    return path.empty() ? std::string(dsl::standard_input) : path;
}

// A place counts bytes of its own line.
EditorPosition position_of(dsl::Position position, const std::string& line) {
    return {static_cast<std::size_t>(position.line) - 1,
            units_of(std::string_view(line).substr(0, static_cast<std::size_t>(position.column) - 1))};
}

}  // namespace

EditorPosition position_from(const Json& json) {
    return {json.at("line").get<std::size_t>(), json.at("character").get<std::size_t>()};
}

Document::Document(std::string uri, std::string text)
    : uri_(std::move(uri)),
      source_{name_of_uri(uri_), std::move(text)},
      lines_(source_.text),
      symbols_(source_) {}

Json Document::range(std::size_t begin, std::size_t end) const {
    return {{"start", json_of(lines_.position_of(source_.text, begin))},
            {"end", json_of(lines_.position_of(source_.text, end))}};
}

void Document::change(const Json& change) {
    const std::string text = change.at("text").get<std::string>();
    if (!change.contains("range")) {
        source_.text = text;
    } else {
        const Json& range = change.at("range");
        const std::size_t begin = offset_of(position_from(range.at("start")));
        const std::size_t end = std::max(begin, offset_of(position_from(range.at("end"))));
        source_.text.replace(begin, end - begin, text);
    }
    lines_ = LineIndex(source_.text);
    symbols_ = Symbols(source_);
}

std::vector<Json> Document::syntax_faults() const {
    try {
        dsl::parse(source_);
    } catch (const dsl::DiagnosticError& error) {
        return {fault(error.report())};
    }
    return {};
}

Json Document::range_of(const dsl::Place& place) const {
    return {{"start", json_of(position_of(place.begin, place.line))},
            {"end", json_of(position_of(place.end, place.last_line))}};
}

// What is wrong in another file is shown at the beginning of this one, in words.
Json Document::fault(const dsl::Report& report) const {
    const bool is_here = report.place.path == source_.path;
    std::string text = report.message;
    if (!is_here && !report.place.path.empty())
        text = report.place.path + ":" + std::to_string(report.place.begin.line) + ": " + text;
    if (!report.hint.empty()) text += "\nhint: " + report.hint;
    Json fault{{"range", is_here ? range_of(report.place) : range(0, 0)},
               {"severity", report.is_warning           ? warning_severity
                            : report.place.path.empty() ? information_severity
                                                        : error_severity},
               {"source", "schedc"},
               {"message", dsl::readable(text)}};
    if (report.is_warning) fault["code"] = report.rule;
    for (const auto& [place, note] : report.notes) {
        if (place.path.empty()) continue;
        fault["relatedInformation"].push_back(
            {{"location",
              {{"uri", place.path == source_.path ? uri_ : uri_of(place.path)}, {"range", range_of(place)}}},
             {"message", dsl::readable(note)}});
    }
    return fault;
}

}  // namespace hocket::tools::lsp
