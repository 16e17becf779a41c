#include "dsl/syntax/allowed_warnings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <climits>
#include <iterator>
#include <set>
#include <span>

#include "dsl/syntax/definitions.hpp"
#include "dsl/syntax/tokens.hpp"

namespace hocket::dsl {
namespace {

constexpr std::string_view addressee = "schedc:", verb = "allow", separators = " \t,";

// Returns the lines in which definitions begin, and their file.
std::set<int> first_lines(const ast::File& file, const SourceFile*& source) {
    std::set<int> lines;
    const auto add = [&](const auto& definition) {
        source = definition.span.file;
        lines.insert(position_of(*source, definition.span.begin).line);
    };
    for (const ast::Import& import : file.imports) add(import);
    for_each_definition(file, add);
    return lines;
}

// Returns the words of a comment, as spans: "schedc:", "allow", "lossy" and "unused" of
// "# schedc: allow lossy, unused".
std::vector<Span> words_of(const Token& comment, const SourceFile& source) {
    std::vector<Span> words;
    for (std::uint32_t at = comment.begin + 1; at < comment.end;) {
        std::uint32_t end = at;
        while (end < comment.end && separators.find(source.text[end]) == std::string_view::npos) ++end;
        if (end > at) words.push_back({&source, at, end});
        at = end + 1;
    }
    return words;
}

}  // namespace

AllowedWarnings::AllowedWarnings(const ast::File& file) {
    const SourceFile* source = nullptr;
    const std::set<int> definitions = first_lines(file, source);
    const std::vector<Token> tokens = tokens_of(*source);
    const auto line_of_token = [&](const Token& token) { return position_of(*source, token.begin).line; };
    for (auto token = tokens.begin(); token != tokens.end(); ++token) {
        if (token->kind != Token::Kind::comment) continue;
        const std::vector<Span> words = words_of(*token, *source);
        if (words.empty() || words[0].text() != addressee) continue;
        int first = line_of_token(*token), last = first;
        if (token == tokens.begin() || line_of_token(*std::prev(token)) != first) {
            const auto code = std::find_if(
                token, tokens.end(), [](const Token& other) { return other.kind != Token::Kind::comment; });
            if (code != tokens.end()) first = last = line_of_token(*code);
            if (definitions.contains(first)) {
                const auto next = definitions.upper_bound(first);
                last = next == definitions.end() ? INT_MAX : *next - 1;
            }
        }
        add(words, first, last);
    }
}

// words: of a comment for these lines.
void AllowedWarnings::add(const std::vector<Span>& words, int first_line, int last_line) {
    const std::string hint = fmt::format("`# {} {} RULE, ...`, where each RULE is one of {}", addressee, verb,
                                         fmt::join(warning_rules, ", "));
    if (words.size() < 3 || words[1].text() != verb) {
        wrong_.push_back({join(words.front(), words.back()), "this comment allows nothing", {}, hint});
        return;
    }
    for (const Span word : std::span(words).subspan(2)) {
        if (const auto rule = std::ranges::find(warning_rules, word.text()); rule != warning_rules.end())
            allowed_.push_back({*rule, first_line, last_line});
        else
            wrong_.push_back({word, fmt::format("there is no warning '{}'", word.text()), {}, hint});
    }
}

bool AllowedWarnings::has(const Report& warning) const {
    return std::ranges::any_of(allowed_, [&](const Allowed& allowed) {
        return allowed.rule == warning.rule && allowed.first_line <= warning.place.end.line &&
               warning.place.begin.line <= allowed.last_line;
    });
}

}  // namespace hocket::dsl
