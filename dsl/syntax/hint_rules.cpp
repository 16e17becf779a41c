#include "dsl/syntax/hint_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "dsl/base/closest.hpp"
#include "dsl/base/collective.hpp"
#include "dsl/syntax/words.hpp"

namespace hocket::dsl {
namespace {

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
    {"\xe2\x80\x9c", "a curly quote", "\""},
    {"\xe2\x80\x9d", "a curly quote", "\""},
    {"\xe2\x80\x98", "a curly quote", "\""},
    {"\xe2\x80\x99", "a curly quote", "\""},
};

std::string hint_for_character(std::string_view text) {
    for (const auto& [bytes, name, instead] : characters)
        if (text.starts_with(bytes))
            return instead == "nothing" ? fmt::format("this is {}: delete it", name)
                                        : fmt::format("this is {}: write {}", name, instead);
    if (!text.empty() && static_cast<unsigned char>(text[0]) >= 0x80)
        return "outside of comments, schedules consist of ASCII characters";
    if (!text.empty() && std::iscntrl(static_cast<unsigned char>(text[0])) &&
        !std::isspace(static_cast<unsigned char>(text[0])))
        return fmt::format("this is a control character ({:#04x}): delete it",
                           static_cast<unsigned char>(text[0]));
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

std::string_view hint_for(std::string_view text) {
    for (const Habit& habit : habits)
        if (habit.text == text) return habit.hint;
    return "";
}

// ---- Rules -------------------------------------------------------------------------------------

std::string of_marks(const Site& site) {
    if (site.has_marks("/", "/"))
        return "a comment begins with '#', and '/' divides whole numbers: it rounds down";
    if (site.has_marks("/", "*")) return "a comment begins with '#'";
    if (site.has_marks("-", "-"))
        return "there is no '--': a comment begins with '#', and a loop counts by itself: for i in 0 ..< n";
    if (site.has_marks("+", "+")) return "there is no '++': a loop counts by itself: for i in 0 ..< n";
    for (const std::string_view mark : {"+", "-", "*", "/"})
        if (site.has_marks(mark, "="))
            return fmt::format("write it out: x = x {} y{}", mark,
                               mark == "+" ? "; a transfer combines with '+>'" : "");
    if (site.has_marks("=", ">")) return "'->' overwrites, '+>' combines";
    if (site.has_marks(":", "="))
        return site.text(-3) == "let" || site.text(-2) == "let" ? "one '=' gives a value"
                                                                : "a name is made by: let n = 1";
    if (site.has_marks("<", ">")) return "unequal is !=";
    if (site.text() == ".." && site.text(1) == "=") return "the end is not in a range: first ..< last + 1";
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
        return fmt::format("'{}' is a word of the language, not a name{}", token.text,
                           token.text == "level" ? ": did you mean `levels`?" : "");
    std::string small(token.text);
    std::transform(small.begin(), small.end(), small.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (small != token.text && is_reserved(small)) return fmt::format("write '{}'", small);
    return "";
}

std::string of_numbers(const Site& site) {
    const Token& token = site.token();
    if (site.text() == "%" && site.token(-1).kind == Token::Kind::number) {
        double percent = 0;
        std::from_chars(site.text(-1).data(), site.text(-1).data() + site.text(-1).size(), percent);
        return fmt::format("the remainder is `mod`; {} % as a fraction is {}", percent, percent / 100);
    }
    if (site.expects("a name") && token.kind == Token::Kind::number) return "a name begins with a letter";
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

// Returns the word that begins the definition whose header the place is in, or "".
std::string_view header_at(const Site& site) {
    for (int back = -1; !site.text(back).empty(); --back) {
        if (Site::is_one_of(site.text(back), {"{", "}"})) return "";
        if (Site::is_one_of(site.text(back),
                            {"algorithm", "schedule", "operator", "update", "collective", "topology"}))
            return site.text(back);
    }
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
    if (text == "else" && site.expects("statement"))
        return "a choice of values is: if condition then one else other";
    if (text == "->" && site.expects("'='")) return "a contract says who holds what: x : r = x : r - 1";
    if ((text == "->" || text == "+>") && site.expects("'}'"))
        return "a transfer has one source and one destination: write a second one";
    if (text == "in" && site.expects("':'"))
        return "an each has its variables behind each other, with ',': each r in g, q in g where q != r";
    if (text == "," && follows_where(site))
        return "`where` comes last in the head of an each, behind all its ranges";
    if (text == "(" && site.text(-1) == "let") return "a let makes one name: let a = 0 let b = 1";
    if (text == "[" && site.text(-1) == "over")
        return "several levels stand in parentheses: over (levels[0], levels[1])";
    if (text == "[" && site.expects("an expression"))
        return "there are no lists: choose by `if i == 0 then 3 else 1`, or calculate";
    if ((text == ")" || text == "]") && !site.text(site.opened()).starts_with(text == ")" ? '(' : '['))
        return fmt::format("no '{}' belongs to this '{}'", text == ")" ? "(" : "[", text);
    if (text == "=" && site.expects("'like'"))
        return fmt::format("a state is as long as a buffer, and begins at 0: state {} like x", site.text(-1));
    if (text == ":" && site.expects("block") && site.opened() == 0)
        return "a body is a block in braces: write '{' for this ':', and '}' at its end";
    if (text == ":" && site.text(-2) == "let") return "names have no types: let n = 1";
    if (text == ":" && (site.expects("'like'") || site.expects("'in'") || !header_at(site).empty()))
        return "names have no types: leave ':' and the type out";
    if (text == ":" && (site.expects("block") || site.expects("statement")))
        return "a body needs no ':': it is a statement, or a block in braces";
    if (text == "let" && site.expects("'if'"))
        return "lets stand before `where`: each r in g let q = r + 1 where q != 0";
    if (site.text(-1) == "for" && text == "(") return std::string(loop_hint);
    if (text == "=" && site.expects("'in'")) return std::string(loop_hint);
    if (site.expects("'else'") && !site.expects("'if'"))
        return "a value needs both sides: if condition then one else other";
    if (site.expects("']'") && (text == ":" || text == ".."))
        return "several chunks are a slice: x[first ..< end]";
    if (site.expects("']'") && text == ",")
        return "x has one index, the chunk's, and ranks stand behind ':'; several chunks are a slice: "
               "x[first ..< end]";
    if (text == ")" && site.text(-1) == "(")
        return "a call has arguments; a member, as g.size, has no parentheses";
    if (site.expects("'over'") && text == "as")
        return "the format comes last: all_gather x over world as int8";
    const bool follows_format = site.text(-2) == "as" || site.text(-2) == "keeping" || site.text(-1) == ")";
    if (text == "using" && site.expects("'}'") && follows_format)
        return "`using` comes before the format: all_gather x over world using ring as int8";
    if (site.expects("a path in quotes") && text.starts_with('\''))
        return "write double quotes: import \"rings.sched\"";
    if (site.expects("a path in quotes") && text.starts_with('"') &&
        (text.size() < 2 || !text.ends_with('"')))
        return "this quote has no end in its line: import \"rings.sched\"";
    if (site.expects("a path in quotes"))
        return "write the path of the file, beside this one or in a folder of the schedule path: import "
               "\"rings.sched\"";
    if (text == "keeping" && site.text(-2) == "keeping")
        return "one state keeps the rest: leave one of them out";
    if (text == "keeping") return "a format comes before the state that keeps the rest: as int8 keeping e";
    if (site.expects("'over'") && text != "{" && site.text(-2) != "partition")
        return "a collective runs over a group: all_reduce x over world";
    return "";
}

// ---- Headers of definitions, and levels ----------------------------------------------------------

// Text in the parentheses of a header.
std::string of_header_names(const Site& site, std::string_view kind) {
    const std::string_view text = site.text();
    if (text == ":") return "names have no types, and parameters have values: radix = 4";
    if (kind == "operator" && text == ",")
        return "an operator joins two elements: operator NAME(a, b) = a + b";
    if (kind == "topology" && site.expects("'='")) return "parameters have values: topology NAME(n = 4)";
    const bool has_collective = kind == "algorithm" || kind == "schedule";
    if (kind == "algorithm" && site.expects("'='"))
        return fmt::format("a parameter of an algorithm has a value that can be left out: {} = 4",
                           site.text(-1));
    if (has_collective && (text == "," || text == "=") && site.expects("')'"))
        return "parameters stand behind ';', with their values: (x; radix = 4)";
    if (has_collective && text == ")" && site.text(-1) == "(")
        return fmt::format("name the buffer: {}(x)", site.text(-2));
    return "";
}

std::string of_headers(const Site& site) {
    const std::string_view kind = header_at(site), text = site.text();
    if (kind.empty()) return "";
    if (site.opened() != 0) return of_header_names(site, kind);
    if (site.expects("block") && (text == "approximate" || text == "lossy"))
        return fmt::format("`{}` stands before `where`", text);
    const bool is_name = site.token().kind == Token::Kind::word && !is_reserved(text);
    if (site.expects("block") && is_name)
        return word_meant(text, {"approximate", "lossy", "where", "with", "over"});
    if (kind == "operator" && site.expects("'='")) {
        if (text == ",") return "the words stand without ',' between them: commutative associative";
        if (is_name) return word_meant(text, {"commutative", "associative"});
    }
    return "";
}

std::string of_levels(const Site& site) {
    const int open = site.opened();
    if (site.text() == "{" && site.text(-2) == "level")
        return "a level has a number of ranks: level host[4] {";
    if (open == 0 || site.text(open) != "{" || site.text(open - 1) != "]" || !site.expects("'}'")) return "";
    bool is_level = false;
    for (int back = open - 2; back > open - 20 && !is_level; --back) is_level = site.text(back) == "level";
    if (!is_level) return "";
    if (site.text() == ",") return "properties stand without ',' between them: medium device latency 3us";
    if (site.token().kind != Token::Kind::word) return "";
    if (is_reserved(site.text())) return "the '}' of the level before is missing";
    return fmt::format("a level has no '{}': it has medium, latency, bandwidth, shared by and nic",
                       site.text());
}

std::string header_of(std::string_view kind) {
    return kind == "schedule" ? "the header is: schedule NAME COLLECTIVE(x) [where CONDITION]"
                              : "the header is: algorithm NAME COLLECTIVE(x) over g [where CONDITION]";
}

std::string of_definitions(const Site& site) {
    if (site.expects("a collective (")) {
        if (site.text() == "-") return "a name consists of letters, digits and '_'";
        std::vector<std::string> names;
        for (const Collective collective : all_collectives) names.emplace_back(name_of(collective));
        const std::string meant = word_meant(site.text(), names);
        return meant.empty() ? header_of(header_at(site)) : meant;
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
        if (const std::string meant = word_meant(site.text(), {"algorithm", "collective", "import",
                                                               "operator", "schedule", "topology", "update"});
            !meant.empty() && site.token().kind == Token::Kind::word)
            return meant;
        if (site.text() == "}") return "there is a '}' too many before";
        for (const std::string_view other : {"include", "use", "from"})
            if (site.text() == other) return std::string(import_hint);
        return std::string(definition_hint);
    }
    return "";
}

}  // namespace

std::string word_meant(std::string_view text, const std::vector<std::string>& words) {
    const std::string meant = did_you_mean(text, words);
    return meant.empty() ? "" : meant.substr(2, meant.size() - 3);
}

// The word that alone could stand here, misspelled.
std::string of_expected_word(const Site& site) {
    for (const char* const word : {"like", "over", "using", "keeping", "of", "in"})
        if (site.expects(fmt::format("'{}'", word)) && site.token().kind == Token::Kind::word &&
            site.text().size() > 2)
            return word_meant(site.text(), {word});
    return "";
}

// The first rule that knows something.
std::string hint_at(const Site& site, std::string_view rest) {
    if (const std::string hint = hint_for_character(rest); !hint.empty()) return hint;
    if (site.token().kind == Token::Kind::mark && rest.size() > 1)
        if (std::string hint = hint_for_character(rest.substr(1)); !hint.empty()) return hint;
    for (const auto rule : {of_marks, of_names, of_numbers, of_expected_word, of_headers, of_levels,
                            of_comparisons, of_statements})
        if (std::string hint = rule(site); !hint.empty()) return hint;
    if (const std::string_view hint = hint_for(site.text()); !hint.empty()) return std::string(hint);
    return of_definitions(site);
}

}  // namespace hocket::dsl
