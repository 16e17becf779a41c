#include "dsl/syntax/parse.hpp"

#include "dsl/syntax/grammar.hpp"
#include "dsl/syntax/names.hpp"

namespace hocket::dsl {
namespace {

using namespace grammar;

const auto skipper = ascii::space | '#' >> *(x3::char_ - '\n') >> ('\n' | x3::eoi);

// Limits the nesting, and with it the recursion of the grammar.
void bound_nesting(const SourceFile& file) {
    int brackets = 0, loops = 0;
    const std::string& text = file.text;
    for (std::uint32_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '#') {
            while (i < text.size() && text[i] != '\n') ++i;
        } else if (c == '(' || c == '[' || c == '{') {
            ++brackets;
        } else if (c == ')' || c == ']' || c == '}') {
            --brackets;
        } else if (c == ':') {
            loops = 0;
        } else if (std::isalpha(static_cast<unsigned char>(c))) {
            const std::uint32_t begin = i;
            while (i + 1 < text.size() &&
                   (std::isalnum(static_cast<unsigned char>(text[i + 1])) || text[i + 1] == '_'))
                ++i;
            const std::string_view word = std::string_view(text).substr(begin, i + 1 - begin);
            if (word == "for" || word == "each" || word == "parallel") ++loops;
            if (word == "over" || word == "let" || word == "level") loops = 0;
        }
        if (brackets > depth_limit || loops > depth_limit)
            throw DiagnosticError(
                Span{&file, i, i + 1}, "this is nested too deeply",
                "the limit is " + std::to_string(depth_limit) + " levels of brackets and loops");
    }
}

void bound_size(const SourceFile& file) {
    constexpr std::size_t limit = 1 << 20;
    if (file.text.size() > limit)
        throw DiagnosticError(Span{&file, 0, 1}, "this file is larger than 1 MiB", "is it a .sched file?");
}

// Quotes words and marks of the language; rules have a description instead.
std::string readable(std::string expected) {
    if (expected.size() >= 2 && expected.front() == '"') expected = expected.substr(1, expected.size() - 2);
    const bool is_word = reserved_words.find(expected) != nullptr || expected == "medium" || expected == "by";
    const bool is_mark =
        !std::isalpha(static_cast<unsigned char>(expected[0])) && expected[0] != '\'' && expected.size() <= 3;
    return is_word || is_mark ? "'" + expected + "'" : expected;
}

template <typename Rule, typename Attribute>
void run(const SourceFile& file, const Rule& rule, Attribute& result, const char* wanted) {
    bound_size(file);
    bound_nesting(file);
    const char* first = file.text.data();
    const char* const last = first + file.text.size();
    const auto at = [&](Iterator where) {
        while (where < last && std::isspace(static_cast<unsigned char>(*where))) ++where;
        const auto offset = static_cast<std::uint32_t>(where - file.text.data());
        return Span{&file, offset, std::min<std::uint32_t>(offset + 1, file.text.size())};
    };
    const auto grammar = x3::with<FileTag>(std::cref(file))[rule];
    try {
        x3::phrase_parse(first, last, grammar, skipper, result);
    } catch (const x3::expectation_failure<Iterator>& failure) {
        const bool dots = std::string_view(failure.where(), last - failure.where()).starts_with("..");
        throw DiagnosticError(at(failure.where()), "expected " + readable(failure.which()) + " here",
                              dots ? "a range is 'first ..< end', or 'end >.. last' to count down" : "");
    }
    if (first != last) throw DiagnosticError(at(first), std::string("expected ") + wanted + " here");
}

}  // namespace

ast::File parse(const SourceFile& file) {
    ast::File result;
    run(file, source_file, result, "algorithm, operator, schedule, topology or update");
    check_names(result);
    return result;
}

ast::UpdateDefinition parse_update(const SourceFile& text) {
    const Span whole{&text, 0, static_cast<std::uint32_t>(text.text.size())};
    ast::UpdateDefinition result{whole, {whole, text.text}, {}, {}};
    run(text, update_statements, result.body, "'state', 'let' or an assignment");
    check_names(result);
    return result;
}

Expression parse_reference(const SourceFile& text) {
    Expression result;
    run(text, named, result, "the end of the name");
    if (result.text.empty())
        throw DiagnosticError(Span{&text, 0, 1}, "expected a name such as ring or flat(ring, doubling)");
    return result;
}

}  // namespace hocket::dsl
