#include "dsl/syntax/hints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "dsl/base/collective.hpp"
#include "dsl/syntax/hint_rules.hpp"
#include "dsl/syntax/hint_site.hpp"
#include "dsl/syntax/tokens.hpp"
#include "dsl/syntax/words.hpp"

namespace hocket::dsl {
namespace {

// ---- Words that are none -------------------------------------------------------------------------

constexpr std::string_view nic_hint =
    "a transfer does not choose its network card: a level of the topology does, as level rail[2] { nic 0 }";

// Words that stand where a name can, so that the text is wrong only behind them.
constexpr std::pair<std::string_view, std::string_view> words_before[] = {
    {"elif", "write `else if`"},
    {"elseif", "write `else if`"},
    {"elsif", "write `else if`"},
    {"while", "there are only loops of known length: for i in 0 ..< n"},
    {"foreach", "write `for`, or `each` for all at once"},
    {"loop", "a loop is: for i in 0 ..< n"},
    {"var", "a name is made by: let n = 1"},
    {"const", "a name is made by: let n = 1"},
    {"int", "a name is made by: let n = 1"},
    {"auto", "a name is made by: let n = 1"},
    {"def", "a function is: let f(i) = i + 1"},
    {"fn", "a function is: let f(i) = i + 1"},
    {"function", "a function is: let f(i) = i + 1"},
    {"return", "nothing ends early, and nothing is returned: put the rest into an `else { ... }`"},
    {"break", "a loop has all its rounds: let its range end earlier, or put the rest into an `if`"},
    {"continue", "a loop has all its rounds: put the rest into an `if`, or use `where` in an each"},
    {"send", "a transfer names both ends: x : 0 -> 1"},
    {"recv", "a transfer names both ends: x : 0 -> 1"},
    {"step", "a range has no step: use 2 * i for i, or `where i mod 2 == 0` in an each"},
    {"by", "a range has no step: use 2 * i for i, or `where i mod 2 == 0` in an each"},
    {"root", "the root stands behind `from` or `to`: broadcast x over world from 0"},
    {"keep", "write `keeping`: reduce_scatter x over world as int8 keeping e"},
    {"on", nic_hint},
    {"via", nic_hint},
    {"nic", nic_hint},
    {"rail", nic_hint},
};

bool is_collective(std::string_view word) {
    return std::ranges::any_of(all_collectives,
                               [&](Collective collective) { return name_of(collective) == word; });
}

std::vector<std::string> known_words() {
    std::vector<std::string> words(std::begin(reserved), std::end(reserved));
    for (const Collective collective : all_collectives) words.emplace_back(name_of(collective));
    return words;
}

Diagnostic wrong_at(const SourceFile& file, const Token& token, std::string message, std::string hint) {
    return {{&file, token.begin, token.end}, std::move(message), {}, std::move(hint)};
}

// ---- Mistakes that are noticed only behind them --------------------------------------------------

// Returns true if the word stands where the text before wants a name or an expression.
bool is_operand(const Site& site, int distance) {
    const Token before = site.token(distance - 1);
    if (before.kind == Token::Kind::mark) return !Site::is_one_of(before.text, {")", "]", "}", "{"});
    return Site::is_one_of(before.text, {"over", "from", "to", "in", "let", "state", "using", "as", "keeping",
                                         "and", "or", "not", "xor", "mod", "if", "where", "of", "like"});
}

// A name begins a transfer, too, so a wrong word of a statement is noticed only behind it. Returns what is
// wrong with such a word, or nothing.
std::optional<Diagnostic> of_word_before(const SourceFile& file, const Site& site) {
    const Token word = site.token(-1);
    const bool is_known_late =
        site.expects("':'") || site.expects("statement") || site.expects("'}'") || site.expects("expression");
    if (word.kind != Token::Kind::word || is_reserved(word.text) || !is_known_late) return std::nullopt;
    std::string hint;
    if (!is_operand(site, -1))
        for (const auto& [text, instead] : words_before)
            if (text == word.text) hint = instead;
    if (hint.empty() && site.expects("':'") && site.token().kind == Token::Kind::word) {
        if (Site::is_one_of(word.text, {"sum", "max", "min", "product"}) && site.text(-2) == "=")
            hint = "write `combined`, whatever the operator of the call is: x : r = combined x : 0 ..< r + 1";
        else if (word.text.size() > 2)
            hint = word_meant(word.text, known_words());
    }
    if (hint.empty()) return std::nullopt;
    return wrong_at(file, word, fmt::format("'{}' is no word of the language", word.text), hint);
}

std::string statement_of(std::string_view collective) {
    return fmt::format("a collective is a statement: {} x over world", collective);
}

// Returns how far back the word stands that is called by the ')' just before the place; 0 if there is none.
int called_before(const Site& site) {
    int depth = 0;
    for (int back = -1; site.text(-1) == ")" && !site.text(back).empty(); --back) {
        depth += site.text(back) == ")" ? 1 : site.text(back) == "(" ? -1 : 0;
        if (depth == 0) return site.token(back - 1).kind == Token::Kind::word ? back - 1 : 0;
    }
    return 0;
}

// Nothing has methods.
std::optional<Diagnostic> of_method(const SourceFile& file, const Site& site) {
    const bool is_in_call = site.text() == "of" && site.text(site.opened()) == "(";
    const int called = is_in_call                                   ? site.opened() - 1
                       : site.text() == "("                         ? -1
                       : site.text() == ")" && site.text(-1) == "(" ? -2
                                                                    : called_before(site);
    if (called == 0 || site.text(called - 1) != ".") return std::nullopt;
    const std::string_view name = site.text(called), of = site.text(called - 2);
    const bool is_member = Site::is_one_of(name, {"size", "count", "reversed"});
    if (is_member ||
        !(site.expects("':'") || site.expects("')'") || site.expects("an expression") || site.expects("'}'")))
        return std::nullopt;
    return wrong_at(file, site.token(called), "nothing is called on a buffer",
                    is_collective(name)                               ? statement_of(name)
                    : Site::is_one_of(name, {"copy", "send", "recv"}) ? "a transfer is: x[r] : r -> q"
                    : Site::is_one_of(name, {"topk", "mstopk"}) ? fmt::format("let s = mstopk({}, 0.01)", of)
                    : Site::is_one_of(name, {"split", "chunk", "part"})
                        ? "a part is made by: let y = x.part(0 of 2)"
                        : fmt::format("functions stand before: {}({})", name, of));
}

// Collectives are statements.
std::optional<Diagnostic> of_call_before(const SourceFile& file, const Site& site) {
    const int called = site.expects("'over'") ? called_before(site) : 0;
    if (called == 0 || Site::is_one_of(site.text(called - 2), {"algorithm", "schedule"}) ||
        !is_collective(site.text(called)))
        return std::nullopt;
    return wrong_at(file, site.token(called + 1), "a collective is not called like a function",
                    statement_of(site.text(called)));
}

// What programs of single ranks call.
std::optional<Diagnostic> of_other_call_before(const SourceFile& file, const Site& site) {
    const bool is_empty_call = site.text() == ")" && site.text(-1) == "(";
    const int called = is_empty_call ? -2 : site.expects("':'") ? called_before(site) : 0;
    if (called == 0) return std::nullopt;
    std::string hint;
    if (Site::is_one_of(site.text(called),
                        {"send", "recv", "isend", "irecv", "sendrecv", "put", "get", "copy"}))
        hint = "a transfer names both of its ranks: x : root -> q";
    if (Site::is_one_of(site.text(called), {"barrier", "sync", "wait", "signal"}))
        hint = "nothing has to wait by hand: a statement sees what those before it brought";
    if (Site::is_one_of(site.text(called), {"print", "printf", "assert"}))
        hint = "nothing is printed or tested while it runs: `schedc explain` shows the steps";
    if (hint.empty()) return std::nullopt;
    return wrong_at(file, site.token(called), fmt::format("there is no '{}'", site.text(called)), hint);
}

std::optional<Diagnostic> of_arrow_before(const SourceFile& file, const Site& site) {
    if (!site.expects("'->'")) return std::nullopt;
    for (const int back : {-2, -3, -4})  // 1 <- 0 is a comparison with -0
        if (site.text(back) == "<" && site.text(back + 1) == "-" && site.touches(back + 1))
            return wrong_at(file, site.token(back), "'<-' is no arrow",
                            "data move to the right: source -> destination");
    return std::nullopt;
}

std::optional<Diagnostic> of_missing_value(const SourceFile& file, const Site& site) {
    const bool begins_next = site.token().kind == Token::Kind::word && is_reserved(site.text());
    const bool ends_block = Site::is_one_of(site.text(), {"", "}", ")", "]"});
    if (!site.expects("an expression") || site.text(-1) != "=" || !(begins_next || ends_block))
        return std::nullopt;
    const std::uint32_t end = site.token(-1).end, next = std::max(site.token().begin, end);
    if (!site.text().empty() && file.text.substr(end, next - end).find('\n') == std::string::npos)
        return std::nullopt;
    return wrong_at(file, site.token(-1), "the value behind this '=' is missing", "");
}

std::optional<Diagnostic> of_missing_algorithm(const SourceFile& file, const Site& site) {
    if (site.text() != "over" || site.text(-3) != "using" || !is_collective(site.text(-2)))
        return std::nullopt;
    return wrong_at(file, site.token(-3), "`using` needs the name of an algorithm",
                    fmt::format("'{}' begins the next statement", site.text(-2)));
}

// ---- Braces ------------------------------------------------------------------------------------

constexpr std::string_view openers = "([{", closers = ")]}";

struct Opened {
    Token token;
    std::size_t indentation;  // of its line
};

// Returns the brace that the place waits for the end of: of those that are open, the innermost, unless one
// that was closed before has its end further left, as where a '}' was forgotten.
std::optional<Token> open_at(const SourceFile& file, const Site& site) {
    std::vector<Opened> open;
    std::optional<Token> suspect;
    std::size_t passed = 0, indentation = 0;
    for (std::size_t i = 0; i < site.at(); ++i) {
        const Token& token = site.tokens()[i];
        const std::string_view gap = std::string_view(file.text).substr(passed, token.begin - passed);
        const std::size_t line_break = gap.rfind('\n');
        const bool begins_line = line_break != gap.npos;
        if (begins_line) indentation = gap.size() - line_break - 1;
        passed = token.begin;
        if (token.text.size() != 1 || token.kind != Token::Kind::mark) continue;
        if (openers.find(token.text) != openers.npos) open.push_back({token, indentation});
        if (closers.find(token.text) == closers.npos || open.empty()) continue;
        if (!suspect && token.text == "}" && begins_line && open.back().indentation > indentation)
            suspect = open.back().token;
        open.pop_back();
    }
    if (open.empty()) return std::nullopt;
    return suspect ? *suspect : open.back().token;
}

// Text can be missing only where a block is open: at its end, and where a definition begins.
bool waits_for_end(const Site& site) {
    for (const std::string_view word : {"", "algorithm", "schedule", "topology", "operator", "level"})
        if (site.text() == word) return true;
    return site.text().size() == 1 && closers.find(site.text()) != closers.npos;
}

// Adds where the parenthesis, bracket or brace is that has no end yet.
void add_open(const SourceFile& file, const Site& site, Diagnostic& diagnostic) {
    const std::optional<Token> open = open_at(file, site);
    if (!open) return;
    const char end = closers[openers.find(open->text)];
    if (site.expects(fmt::format("'{}'", end)) && (end != '}' || waits_for_end(site)))
        diagnostic.notes.push_back({{&file, open->begin, open->end}, "this one is open"});
}

}  // namespace

Diagnostic explained(const SourceFile& file, std::uint32_t offset, const std::string& expected) {
    const Site site(file, offset, expected);
    for (const auto rule : {of_method, of_word_before, of_call_before, of_other_call_before, of_arrow_before,
                            of_missing_value, of_missing_algorithm})
        if (std::optional<Diagnostic> found = rule(file, site)) return *found;
    const auto end = static_cast<std::uint32_t>(file.text.size());
    offset = std::max(offset, site.token().begin);  // behind comments
    Diagnostic diagnostic{
        {&file, offset, std::min(offset + 1, end)}, "expected " + expected + " here", {}, ""};
    // The end of a statement without `over` is at the end of its line.
    const std::uint32_t before = site.token(-1).end;
    if (expected == "'over'" && before < offset &&
        file.text.substr(before, offset - before).find('\n') != std::string::npos)
        diagnostic.span = {&file, site.token(-1).begin, before},
        diagnostic.message = "expected 'over' behind this";
    add_open(file, site, diagnostic);
    diagnostic.hint = hint_at(site, std::string_view(file.text).substr(offset));
    return diagnostic;
}

namespace {

// Every other byte of ASCII characters in UTF-16 is 0.
bool seems_utf16(std::string_view text) {
    if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) return true;
    const std::string_view first = text.substr(0, 64);
    const auto zeros = static_cast<std::size_t>(std::ranges::count(first, '\0'));
    return zeros > 0 && 3 * zeros >= first.size();
}

}  // namespace

void refuse_other_encodings(const SourceFile& file) {
    const std::string_view text = file.text;
    const auto at = [&](std::size_t offset) {
        const auto begin = static_cast<std::uint32_t>(std::min(offset, text.size()));
        return Span{&file, begin, static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), begin + 1))};
    };
    if (seems_utf16(text))
        throw DiagnosticError(at(0), "this file is not UTF-8, but seems to be UTF-16", "save it as UTF-8");
    if (text.starts_with("\xef\xbb\xbf"))
        throw DiagnosticError(
            at(0), "this file begins with a byte order mark",
            "save it as UTF-8 without one (in many editors: \"UTF-8\", not \"UTF-8 with BOM\")");
    if (const std::size_t zero = text.find('\0'); zero != text.npos)
        throw DiagnosticError(at(zero), "a byte 0 is here, which no text has",
                              "delete it, if this file is a schedule at all");
    const std::size_t end = text.find('\r');
    if (text.find('\n') == text.npos && end + 1 < text.size() && end != text.npos)
        throw DiagnosticError(at(end), "lines end with a carriage return alone here",
                              "save the file with the line ends of this system, LF or CR LF");
}

}  // namespace hocket::dsl
