#include "dsl/syntax/parse.hpp"

#include "dsl/syntax/grammar.hpp"
#include "dsl/syntax/names.hpp"
#include "dsl/syntax/own_collectives.hpp"

namespace hocket::dsl {
namespace {

using namespace grammar;

const auto skipper = ascii::space | '#' >> *(x3::char_ - '\n') >> ('\n' | x3::eoi);

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

// Says what is meant where other text stands than what was expected.
const char* hint_at(std::string_view text, std::string_view expected) {
    if (text.starts_with("..")) return "a range is 'first ..< end', or 'end >.. last' to count down";
    if (text.starts_with("then"))
        return "`then` is for values: the statement is: if condition BODY else BODY";
    if (text.starts_with("let") && expected.find("'if'") != std::string_view::npos)
        return "lets stand before `where`: each r in g let q = r + 1 where q != 0";
    return "";
}

template <typename Rule, typename Attribute>
void run(const SourceFile& file, const Rule& rule, Attribute& result, const char* wanted) {
    bound_size(file);
    const char* first = file.text.data();
    const char* const last = first + file.text.size();
    const auto at = [&](Iterator where) {
        const auto offset = static_cast<std::uint32_t>(where - file.text.data());
        return Span{&file, offset, std::min<std::uint32_t>(offset + 1, file.text.size())};
    };
    const auto next_text = [&](Iterator where) {
        return std::find_if_not(where, last, [](unsigned char c) { return std::isspace(c); });
    };
    int depth = 0;
    const auto grammar = x3::with<DepthTag>(std::ref(depth))[x3::with<FileTag>(std::cref(file))[rule]];
    try {
        x3::phrase_parse(first, last, grammar, skipper, result);
    } catch (const x3::expectation_failure<Iterator>& failure) {
        const Iterator where = next_text(failure.where());
        throw DiagnosticError(at(where), "expected " + readable(failure.which()) + " here",
                              hint_at({where, last}, failure.which()));
    }
    if (first != last)
        throw DiagnosticError(at(next_text(first)), std::string("expected ") + wanted + " here");
}

}  // namespace

ast::File parse(const SourceFile& file) {
    ast::File result;
    run(file, source_file, result, "algorithm, collective, operator, schedule, topology or update");
    check_names(result);
    define_collectives(result);
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
