#include "dsl/syntax/allowed_warnings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <set>

#include "dsl/syntax/tokens.hpp"

namespace hocket::dsl {
namespace {

constexpr std::string_view beginning = "# schedc: allow ";

// Returns the lines in which definitions begin, and their file.
std::set<int> first_lines(const ast::File& file, const SourceFile*& source) {
    std::set<int> lines;
    const auto add = [&](const auto& definitions) {
        for (const auto& definition : definitions) {
            source = definition.span.file;
            lines.insert(position_of(*source, definition.span.begin).line);
        }
    };
    add(file.imports);
    add(file.collectives);
    add(file.operators);
    add(file.updates);
    add(file.algorithms);
    add(file.schedules);
    add(file.topologies);
    return lines;
}

// Returns "lossy" and "unused" of "lossy, unused", as spans.
std::vector<Span> names_in(const Token& comment, const SourceFile& source) {
    std::vector<Span> names;
    auto at = comment.begin + static_cast<std::uint32_t>(beginning.size());
    while (at < comment.end) {
        std::uint32_t end = at;
        while (end < comment.end && source.text[end] != ',' && source.text[end] != ' ') ++end;
        if (end > at) names.push_back({&source, at, end});
        at = end + 1;
    }
    return names;
}

}  // namespace

AllowedWarnings::AllowedWarnings(const ast::File& file) {
    const SourceFile* source = nullptr;
    const std::set<int> definitions = first_lines(file, source);
    const std::vector<Token> tokens = tokens_of(*source);
    const auto line_of_token = [&](const Token& token) { return position_of(*source, token.begin).line; };
    for (auto token = tokens.begin(); token != tokens.end(); ++token) {
        if (token->kind != Token::Kind::comment || !token->text.starts_with(beginning)) continue;
        int first = line_of_token(*token), last = first;
        if (token == tokens.begin() || line_of_token(*std::prev(token)) != first) {
            const auto code = std::find_if(
                token, tokens.end(), [](const Token& other) { return other.kind != Token::Kind::comment; });
            if (code == tokens.end()) continue;
            first = last = line_of_token(*code);
            if (definitions.contains(first)) {
                const auto next = definitions.upper_bound(first);
                last = next == definitions.end() ? INT_MAX : *next - 1;
            }
        }
        for (const Span name : names_in(*token, *source)) {
            if (const auto rule = std::ranges::find(warning_rules, name.text()); rule != warning_rules.end())
                allowed_.push_back({*rule, first, last});
            else
                wrong_.push_back({name,
                                  fmt::format("there is no warning '{}'", name.text()),
                                  {},
                                  fmt::format("there are: {}", fmt::join(warning_rules, ", "))});
        }
    }
}

bool AllowedWarnings::has(const Report& warning) const {
    const int line = warning.place.begin.line;
    return std::ranges::any_of(allowed_, [&](const Allowed& allowed) {
        return allowed.rule == warning.rule && allowed.first_line <= line && line <= allowed.last_line;
    });
}

}  // namespace hocket::dsl
