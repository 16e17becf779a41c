#include "tools/schedc/messages.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "dsl/base/readable.hpp"
#include "tools/tool.hpp"

namespace hocket::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string_view variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

bool wants_colour(Colour colour) {
    if (colour != Colour::by_terminal) return colour == Colour::always;
    if (!variable("NO_COLOR").empty()) return false;
    if (const std::string_view forced = variable("CLICOLOR_FORCE"); !forced.empty() && forced != "0")
        return true;
    return isatty(STDERR_FILENO) == 1 && variable("TERM") != "dumb";
}

// JSON holds no bytes that are not UTF-8.
std::string text_of(std::string_view text) {
    return dsl::readable(text);
}

void add_place(Json& json, const dsl::Place& place) {
    if (place.path.empty()) return;
    json["file"] = text_of(place.path);
    json["line"] = place.begin.line;
    json["column"] = place.begin.column;
    json["end_line"] = place.end.line;
    json["end_column"] = place.end.column;
}

// Columns of SARIF count characters, from 1; ours count bytes.
std::size_t character_column(std::string_view line, int column) {
    std::size_t characters = 1;
    for (const char c : line.substr(0, static_cast<std::size_t>(column) - 1))
        characters += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    return characters;
}

// A path as a reference of a URI: relative as it is, absolute as file://.
std::string uri_of(const std::string& path) {
    constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    std::string uri = path.starts_with('/') ? "file://" : "";
    for (const char c : path)
        uri += plain.find(c) != plain.npos ? std::string(1, c)
                                           : fmt::format("%{:02X}", static_cast<unsigned char>(c));
    return uri;
}

Json location_of(const dsl::Place& place) {
    return {{"physicalLocation",
             {{"artifactLocation", {{"uri", uri_of(place.path)}}},
              {"region",
               {{"startLine", place.begin.line},
                {"startColumn", character_column(place.line, place.begin.column)},
                {"endLine", place.end.line},
                {"endColumn", character_column(place.last_line, place.end.column)}}}}}};
}

struct Description {
    std::string_view rule, text;
};

// Of warnings, for SARIF.
constexpr Description descriptions[] = {
    {"comment", "A comment for schedc allows nothing."},
    {"lossy", "A right definition leaves out elements, and nothing keeps them for later."},
    {"needless", "A right definition has a transfer that it did not need where it was tried."},
    {"unused", "A right definition has a name, or its file an import, that nothing uses."}};
static_assert(std::ranges::equal(descriptions, dsl::warning_rules, {}, &Description::rule));

Json rule_of(std::string_view id, std::string_view level, std::string_view description) {
    return {{"id", id},
            {"shortDescription", {{"text", description}}},
            {"defaultConfiguration", {{"level", level}}}};
}

// Notes without a place stand in the text: a related location must have one.
Json result_of(const dsl::Report& report) {
    std::string text = report.message;
    for (const auto& [place, note] : report.notes)
        if (place.path.empty()) text += "\nnote: " + note;
    if (!report.hint.empty()) text += "\nhint: " + report.hint;
    Json result{{"ruleId", report.rule},
                {"level", report.is_warning ? "warning" : "error"},
                {"message", {{"text", text_of(text)}}}};
    if (!report.place.path.empty()) result["locations"] = {location_of(report.place)};
    for (const auto& [place, text] : report.notes) {
        if (place.path.empty()) continue;
        Json location = location_of(place);
        location["message"] = {{"text", text_of(text)}};
        result["relatedLocations"].push_back(location);
    }
    return result;
}

}  // namespace

dsl::Palette palette_of(Colour colour) {
    if (!wants_colour(colour)) return {};
    return {"\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m", "\x1b[1;32m", "\x1b[1m", "\x1b[0m"};
}

dsl::Report report_of(const std::exception& error) {
    const auto* refused = dynamic_cast<const dsl::DiagnosticError*>(&error);
    return refused ? refused->report() : dsl::Report{{}, error.what(), {}, ""};
}

std::string json_of(const dsl::Report& report) {
    Json json{{"kind", report.is_warning ? "warning" : "error"}, {"message", text_of(report.message)}};
    if (report.is_warning) json["rule"] = report.rule;
    add_place(json, report.place);
    if (!report.hint.empty()) json["hint"] = text_of(report.hint);
    json["notes"] = Json::array();
    for (const auto& [place, text] : report.notes) {
        Json note{{"message", text_of(text)}};
        add_place(note, place);
        json["notes"].push_back(note);
    }
    json["rendered"] = render(report);
    return json.dump();
}

std::string json_of(const dsl::RightDefinition& definition) {
    return Json{{"kind", "right"},
                {"file", text_of(definition.path)},
                {"definition", text_of(definition.what)},
                {"where", text_of(definition.where)}}
        .dump();
}

std::string sarif_of(const std::vector<dsl::Report>& reports) {
    Json results = Json::array();
    for (const dsl::Report& report : reports) results.push_back(result_of(report));
    Json rules =
        Json::array({rule_of("refused", "error", "A schedule file, or a definition in it, is refused.")});
    for (const auto& [rule, description] : descriptions)
        rules.push_back(rule_of(rule, "warning", description));
    const Json driver{{"name", "schedc"}, {"version", HOCKET_VERSION}, {"rules", rules}};
    const Json run{{"tool", {{"driver", driver}}}, {"columnKind", "unicodeCodePoints"}, {"results", results}};
    return Json{{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                {"version", "2.1.0"},
                {"runs", Json::array({run})}}
        .dump(2);
}

void Messages::right(const dsl::RightDefinition& definition) {
    if (options_.quiet || options_.format == MessageFormat::sarif) return;
    fmt::print("{}\n", is_for_people() ? text_of(definition) : json_of(definition));
}

void Messages::say_of(const dsl::Report& report) {
    if (options_.format == MessageFormat::human)
        say("{}", render(report, palette_));
    else if (options_.format == MessageFormat::json)
        fmt::print("{}\n", json_of(report));
    else
        reports_.push_back(report);
}

void Messages::end() {
    if (options_.format == MessageFormat::sarif) fmt::print("{}\n", sarif_of(reports_));
}

}  // namespace hocket::tools
