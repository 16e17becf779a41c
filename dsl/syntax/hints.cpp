#include "dsl/syntax/hints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <vector>

#include "dsl/base/closest.hpp"
#include "dsl/base/collective.hpp"
#include "dsl/syntax/tokens.hpp"
#include "dsl/syntax/words.hpp"

namespace hocket::dsl {
namespace {

// The place where a text stops being right: its tokens without comments, and the one that is there.
class Site {
  public:
    Site(const SourceFile& file, std::uint32_t offset, const std::string& expected)
        : expected_(expected), offset_(offset) {
        for (const Token& token : tokens_of(file))
            if (token.kind != Token::Kind::comment) tokens_.push_back(token);
        // A mark of two characters may be wrong from its second one on.
        at_ = static_cast<std::size_t>(
            std::find_if(tokens_.begin(), tokens_.end(), [&](const Token& t) { return t.end > offset; }) -
            tokens_.begin());
    }

    bool expects(std::string_view what) const { return expected_.find(what) != expected_.npos; }
    std::size_t at() const { return at_; }
    const std::vector<Token>& tokens() const { return tokens_; }

    // The token that stands so many behind the place; an empty one beyond the text.
    Token token(int distance = 0) const {
        const std::ptrdiff_t i = static_cast<std::ptrdiff_t>(at_) + distance;
        return i < 0 || i >= std::ssize(tokens_) ? Token{} : tokens_[static_cast<std::size_t>(i)];
    }
    std::string_view text(int distance = 0) const { return token(distance).text; }
    bool touches(int distance) const { return token(distance - 1).end == token(distance).begin; }
    // These marks stand here, or just behind, without a space between them.
    bool has_marks(std::string_view first, std::string_view second) const {
        for (const int from : {-1, 0, 1})
            if (text(from) == first && text(from + 1) == second && touches(from + 1)) return true;
        return false;
    }

  private:
    std::string expected_;
    std::uint32_t offset_;
    std::vector<Token> tokens_;
    std::size_t at_;
};

// ---- Characters --------------------------------------------------------------------------------

struct Character {
    std::string_view bytes, name, instead;
};
constexpr Character characters[] = {
    {"\xc2\xa0", "a no-break space", "a space"},
    {"\xe2\x80\xaf", "a narrow no-break space", "a space"},
    {"\xe2\x80\x8b", "a space of no width", "nothing"},
    {"\xe3\x80\x80", "a wide space", "a space"},
    {"\xef\xbb\xbf", "a byte order mark", "nothing"},
    {"\xe2\x80\x93", "a dash", "-"},
    {"\xe2\x80\x94", "a dash", "-"},
    {"\xe2\x88\x92", "a minus sign", "-"},
    {"\xe2\x86\x92", "an arrow", "->"},
    {"\xc3\x97", "a multiplication sign", "*"},
    {"\xe2\x89\xa4", "a comparison", "<="},
    {"\xe2\x89\xa5", "a comparison", ">="},
    {"\xe2\x89\xa0", "a comparison", "!="},
    {"\xe2\x80\xa6", "an ellipsis", "..<"},
    {"\xef\xbc\x88", "a wide parenthesis", "("},
    {"\xef\xbc\x89", "a wide parenthesis", ")"},
};

std::string hint_for_character(std::string_view text) {
    for (const auto& [bytes, name, instead] : characters)
        if (text.starts_with(bytes)) return fmt::format("this is {}: write {}", name, instead);
    if (!text.empty() && static_cast<unsigned char>(text[0]) >= 0x80)
        return "outside of comments, schedules consist of ASCII characters";
    return "";
}

// ---- What other languages write ----------------------------------------------------------------

struct Habit {
    std::string_view text, hint;
};
constexpr std::string_view range_hint = "a range is 'first ..< end', or 'end >.. last' to count down";
constexpr std::string_view loop_hint = "a loop is: for i in 0 ..< n";
constexpr std::string_view import_hint = "to use another file's algorithms, write: import \"rings.sched\"";
constexpr std::string_view definition_hint =
    "a definition begins with its kind: algorithm NAME COLLECTIVE(x) over g { ... }";

// Tokens that nothing in the language begins with, or not there.
constexpr Habit habits[] = {
    {"&&", "write `and`; & combines bits"},
    {"||", "write `or`; | combines bits"},
    {"^", "exclusive or is `xor`; a power is **"},
    {"%", "the remainder is `mod`"},
    {"!", "write `not`; the comparison is !="},
    {"~", "there is no complement of bits: xor with -1 is one"},
    {"?", "a choice of values is: if condition then one else other"},
    {"\"", "there are no texts in quotes, but for the path of an import: names stand for themselves"},
    {"'", "there are no texts in quotes: names stand for themselves"},
    {"\\", "line breaks mean nothing: leave the \\ out"},
    {"..", range_hint},
    {"then", "`then` is for values: the statement is: if condition BODY else BODY"},
};

// Words that stand where a name can, so that the text is wrong only behind them.
constexpr Habit words_before[] = {
    {"elif", "write `else if`"},
    {"elseif", "write `else if`"},
    {"elsif", "write `else if`"},
    {"while", "there are only loops of known length: for i in 0 ..< n"},
    {"foreach", "write `for`, or `each` for all at once"},
    {"loop", loop_hint},
    {"var", "a name is made by: let n = 1"},
    {"const", "a name is made by: let n = 1"},
    {"int", "a name is made by: let n = 1"},
    {"auto", "a name is made by: let n = 1"},
    {"def", "a function is: let f(i) = i + 1"},
    {"fn", "a function is: let f(i) = i + 1"},
    {"function", "a function is: let f(i) = i + 1"},
    {"return", "nothing is returned: what a rank must have at the end is the collective's promise"},
    {"send", "a transfer names both ends: x : 0 -> 1"},
    {"recv", "a transfer names both ends: x : 0 -> 1"},
};

template <std::size_t count>
std::string_view hint_for(const Habit (&known)[count], std::string_view text) {
    for (const Habit& habit : known)
        if (habit.text == text) return habit.hint;
    return "";
}

// ---- Rules -------------------------------------------------------------------------------------

std::string of_marks(const Site& site) {
    if (site.has_marks("/", "/") || site.has_marks("/", "*")) return "a comment begins with '#'";
    if (site.has_marks("-", "-"))
        return "there is no '--': a comment begins with '#', and a loop counts by itself: for i in 0 ..< n";
    if (site.has_marks("+", "+")) return "there is no '++': a loop counts by itself: for i in 0 ..< n";
    for (const std::string_view mark : {"+", "-", "*", "/"})
        if (site.has_marks(mark, "="))
            return fmt::format("write it out: x = x {} y; a transfer combines with '+>'", mark);
    if (site.has_marks("=", ">")) return "'->' overwrites, '+>' combines";
    if (site.has_marks(":", "=")) return "one '=' gives a value";
    if (site.text() == ".." && site.text(1) == "=") return "the end is not in a range: first ..< last + 1";
    // 1 <- 0 is a comparison with -0.
    for (const int back : {-2, -3, -4})
        if (site.expects("'->'") && site.text(back) == "<" && site.text(back + 1) == "-" &&
            site.touches(back + 1))
            return "data move to the right: source -> destination";
    return "";
}

std::string of_names(const Site& site) {
    const Token& token = site.token();
    const bool expects_name =
        site.expects("a name") || site.expects("name in range") || site.expects("name = ");
    if (expects_name && token.kind == Token::Kind::word && is_reserved(token.text))
        return fmt::format("'{}' is a word of the language: choose another name", token.text);
    if (site.expects("an expression") && token.kind == Token::Kind::word && is_reserved(token.text) &&
        token.text != "if")
        return fmt::format("'{}' is a word of the language, not a name", token.text);
    std::string small(token.text);
    std::transform(small.begin(), small.end(), small.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (small != token.text && is_reserved(small)) return fmt::format("write '{}'", small);
    return "";
}

std::string of_numbers(const Site& site) {
    const Token& token = site.token();
    if (site.text() == "." && site.token(1).kind == Token::Kind::number) return "write 0.5 for .5";
    if (site.text(-1) == "." && site.token(-2).kind == Token::Kind::number) return "write 1.0 for 1.";
    if (token.kind == Token::Kind::number && !token.text.empty() && std::isalpha(token.text.back()))
        return "numbers are decimal, and have no unit: 65536";
    if (token.kind == Token::Kind::number && token.text.find_first_of("xX_") != token.text.npos)
        return "numbers are decimal, without '_': 65536";
    return "";
}

std::string of_comparisons(const Site& site) {
    if (site.text() == "==")
        return site.expects("':'") ? "a comparison is no statement; x = value assigns"
                                   : "one '=' gives a value; '==' compares";
    const bool may_be_a_body = site.expects("block") || site.expects("transfer") || site.expects("then") ||
                               site.expects("')'") || site.expects("statement");
    if (site.text() == "=" && may_be_a_body) return "a comparison is '=='";
    return "";
}

// The place is in the parentheses of such a header.
bool kind_without_parameters(const Site& site) {
    for (int back = -1; !site.text(back).empty() && site.text(back) != ")"; --back)
        if (site.text(back) == "(")
            return site.text(back - 2) == "operator" || site.text(back - 2) == "collective";
    return false;
}

// There is a `where` in the same head already.
bool follows_where(const Site& site) {
    for (int back = -1; !site.text(back).empty(); --back) {
        const std::string_view text = site.text(back);
        if (text == "where") return true;
        if (text == "{" || text == "}" || text == "each" || text == "->" || text == "+>") return false;
    }
    return false;
}

std::string of_statements(const Site& site) {
    const std::string_view text = site.text();
    if (text == ";" && kind_without_parameters(site))
        return "operators and collectives have no parameters: leave ';' and them out";
    if (text == ";") return "statements need no ';': leave it out";
    if (text == "where" && (site.expects("'}'") || site.expects("block") || site.expects("statement")))
        return site.text(-1) == "}" || !follows_where(site)
                   ? "`where` stands in the head of an each: each r in g where r != 0  x[r] : r -> 0"
                   : "one `where` has all conditions: join them by `and`";
    if (text == ":" && (site.expects("block") || site.expects("statement")))
        return "a body needs no ':': it is a statement, or a block in braces";
    if (text == "let" && site.expects("'if'"))
        return "lets stand before `where`: each r in g let q = r + 1 where q != 0";
    if (site.text(-1) == "for" && text == "(") return std::string(loop_hint);
    if (text == "=" && site.expects("'in'")) return std::string(loop_hint);
    if (site.expects("'else'") && !site.expects("'if'"))
        return "a value needs both sides: if condition then one else other";
    if (site.expects("']'") && (text == ":" || text == ".." || text == ","))
        return "several chunks are a slice: x[first ..< end]";
    if (text == ")" && site.text(-1) == "(")
        return "a call has arguments; a member, as g.size, has no parentheses";
    if (site.expects("'over'") && text == "as")
        return "the format comes last: all_gather x over world as int8";
    if (text == "using" && site.expects("'}'") && (site.text(-2) == "as" || site.text(-1) == ")"))
        return "`using` comes before the format: all_gather x over world using ring as int8";
    if (site.expects("a path in quotes"))
        return "write the path of the file, beside this one or in a folder of the schedule path: import "
               "\"rings.sched\"";
    if (text == "keeping") return "a format comes before the state that keeps the rest: as int8 keeping e";
    if (site.expects("'over'") && text != "{" && site.text(-2) != "partition")
        return "a collective runs over a group: all_reduce x over world";
    return "";
}

std::string of_definitions(const Site& site) {
    if (site.expects("a collective (")) {
        std::vector<std::string> names;
        for (const Collective collective : all_collectives) names.emplace_back(name_of(collective));
        const std::string meant = did_you_mean(site.text(), names);
        return meant.empty() ? "the header is: algorithm NAME COLLECTIVE(x) over g"
                             : meant.substr(2, meant.size() - 3);
    }
    if (site.expects("'over'") && site.text() == "{")
        return "an algorithm runs over a group: ... (x) over g {";
    if (site.expects("block") && site.text() == "over")
        return "a schedule runs on all ranks; an algorithm runs over a group";
    if (site.text() == "(" && site.expects("'['"))
        return "the size of a level stands in brackets: level host[4]";
    if (site.text() == "{" && site.expects("'='"))
        return "an operator is one expression: operator NAME(a, b) = a + b";
    if (site.expects("a time") || site.expects("a rate"))
        return "a property has its value behind it: latency 3us";
    if (site.expects("algorithm, collective")) {
        if (site.text() == "}") return "there is a '}' too many before";
        for (const std::string_view other : {"include", "use", "from"})
            if (site.text() == other) return std::string(import_hint);
        return std::string(definition_hint);
    }
    return "";
}

// The first rule that knows something.
std::string hint_at(const Site& site, std::string_view rest) {
    if (const std::string hint = hint_for_character(rest); !hint.empty()) return hint;
    for (const auto rule : {of_marks, of_names, of_numbers, of_comparisons, of_statements})
        if (std::string hint = rule(site); !hint.empty()) return hint;
    if (const std::string_view hint = hint_for(habits, site.text()); !hint.empty()) return std::string(hint);
    return of_definitions(site);
}

// ---- Words that are none -------------------------------------------------------------------------

std::vector<std::string> statement_words() {
    std::vector<std::string> words{"for", "each", "parallel", "let", "if", "partition", "state", "else"};
    for (const Collective collective : all_collectives) words.emplace_back(name_of(collective));
    return words;
}

// A name begins a transfer, too, so a wrong word of a statement is noticed only behind it. Returns what is
// wrong with such a word, or nothing.
std::optional<Diagnostic> of_word_before(const SourceFile& file, const Site& site) {
    const Token word = site.token(-1);
    const bool is_known_late =
        site.expects("':'") || site.expects("statement") || site.expects("'}'") || site.expects("expression");
    if (word.kind != Token::Kind::word || is_reserved(word.text) || !is_known_late) return std::nullopt;
    std::string hint(hint_for(words_before, word.text));
    if (hint.empty() && site.expects("':'") && site.token().kind == Token::Kind::word) {
        const std::string meant = did_you_mean(word.text, statement_words());
        if (!meant.empty()) hint = meant.substr(2, meant.size() - 3);
    }
    if (hint.empty()) return std::nullopt;
    return Diagnostic{
        {&file, word.begin, word.end}, fmt::format("'{}' is no word of the language", word.text), {}, hint};
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
    for (const std::string_view word : {"", "algorithm", "schedule", "topology", "operator"})
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
    if (std::optional<Diagnostic> found = of_word_before(file, site)) return *found;
    const auto end = static_cast<std::uint32_t>(file.text.size());
    offset = std::max(offset, site.token().begin);  // behind comments
    Diagnostic diagnostic{
        {&file, offset, std::min(offset + 1, end)}, "expected " + expected + " here", {}, ""};
    add_open(file, site, diagnostic);
    diagnostic.hint = hint_at(site, std::string_view(file.text).substr(offset));
    return diagnostic;
}

void refuse_other_encodings(const SourceFile& file) {
    const std::string_view text = file.text;
    const Span first{&file, 0, static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), 1))};
    const bool is_utf16 = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
                          (text.size() >= 2 && (text[0] == '\0' || text[1] == '\0'));
    if (is_utf16)
        throw DiagnosticError(first, "this file is not UTF-8, but seems to be UTF-16", "save it as UTF-8");
    if (text.starts_with("\xef\xbb\xbf"))
        throw DiagnosticError(
            first, "this file begins with a byte order mark",
            "save it as UTF-8 without one (in many editors: \"UTF-8\", not \"UTF-8 with BOM\")");
}

}  // namespace hocket::dsl
