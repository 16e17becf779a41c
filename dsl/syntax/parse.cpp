#include "dsl/syntax/parse.hpp"

#include "dsl/syntax/grammar.hpp"
#include "dsl/syntax/hints.hpp"
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

template <typename Rule, typename Attribute>
void run(const SourceFile& file, const Rule& rule, Attribute& result, const char* wanted) {
    bound_size(file);
    refuse_other_encodings(file);
    const char* first = file.text.data();
    const char* const last = first + file.text.size();
    const auto refuse = [&](Iterator where, const std::string& expected) {
        where = std::find_if_not(where, last, [](unsigned char c) { return std::isspace(c); });
        throw DiagnosticError(
            explained(file, static_cast<std::uint32_t>(where - file.text.data()), expected));
    };
    int depth = 0;
    const auto grammar = x3::with<DepthTag>(std::ref(depth))[x3::with<FileTag>(std::cref(file))[rule]];
    try {
        x3::phrase_parse(first, last, grammar, skipper, result);
    } catch (const x3::expectation_failure<Iterator>& failure) {
        refuse(failure.where(), readable(failure.which()));
    }
    if (first != last) refuse(first, wanted);
}

}  // namespace

ast::File parse(const SourceFile& file) {
    ast::File result;
    run(file, source_file, result, "algorithm, collective, import, operator, schedule, topology or update");
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
