#include "tools/schedc/check.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "dsl/base/diagnostic.hpp"
#include "dsl/elaboration/library.hpp"
#include "tools/schedc/inputs.hpp"
#include "tools/tool.hpp"

namespace hocket::tools {
namespace {

// Replaces folders by their files, and "-" by the text that is read there.
void resolve_files(dsl::CheckOptions& options) {
    options.files = without_folders(options.files);
    for (std::string& file : options.files) {
        if (file != standard_input) continue;
        file = dsl::standard_input;
        if (!options.texts.contains(file)) options.texts[file] = read_source(standard_input).text;
    }
}

std::string counted(int number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string are_right(int number) {
    return fmt::format("{} {} right", counted(number, "definition"), number == 1 ? "is" : "are");
}

// Errors that are about no definition, as of a file that does not parse, are counted for themselves.
std::string refused_text(const dsl::CheckResult& result) {
    const int refused = result.wrong - result.not_looked_at, all = result.right + refused;
    if (refused == 0)
        return fmt::format("{}; {}", counted(result.not_looked_at, "error"),
                           result.right > 0 ? are_right(result.right) : "no definition was checked");
    return fmt::format("{} of {} refused{}", refused, counted(all, "definition"),
                       result.not_looked_at > 0 ? "; " + counted(result.not_looked_at, "other error") : "");
}

void print_sum(const dsl::CheckResult& result, const MessageOptions& options, bool is_strict) {
    if (options.format == MessageFormat::json)
        fmt::print("{}\n", nlohmann::ordered_json{{"kind", "sum"},
                                                  {"right", result.right},
                                                  {"wrong", result.wrong},
                                                  {"warnings", result.warnings}}
                               .dump());
    else if (options.format == MessageFormat::human && result.wrong > 0)
        say("{}", refused_text(result));
    else if (options.format == MessageFormat::human && is_strict && result.warnings > 0)
        say("{}, but --strict refuses {}", are_right(result.right), counted(result.warnings, "warning"));
    else if (options.format == MessageFormat::human && !options.quiet)
        fmt::print("{}{}\n", are_right(result.right),
                   result.warnings > 0 ? ", with " + counted(result.warnings, "warning") : "");
}

}  // namespace

dsl::GivenValues parse_with(const std::string& text) {
    const std::size_t equals = text.find('=');
    dsl::GivenValues given{text.substr(0, equals), {}};
    std::size_t begin = equals == text.npos ? text.size() : equals + 1;
    int depth = 0;
    for (std::size_t at = begin; at <= text.size(); ++at) {
        const char c = at < text.size() ? text[at] : ',';
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        if (c != ',' || (depth > 0 && at < text.size())) continue;
        given.values.push_back(text.substr(begin, at - begin));
        begin = at + 1;
    }
    const auto is_empty = [](const std::string& one) { return one.find_first_not_of(' ') == one.npos; };
    if (equals == text.npos || is_empty(given.parameter) || std::ranges::any_of(given.values, is_empty))
        throw dsl::DiagnosticError(dsl::Span(), fmt::format("--with '{}' gives no values", text),
                                   "name a parameter and what to try for it: --with radix=2,3,8");
    return given;
}

int run_check(CheckRequest request) {
    Messages messages(request.messages);
    dsl::CheckResult result;
    try {
        for (const std::string& text : request.with) request.options.with.push_back(parse_with(text));
        resolve_files(request.options);
        result = dsl::check_files(
            request.options, {[&](const dsl::RightDefinition& definition) { messages.right(definition); },
                              [&](const dsl::Report& report) { messages.say_of(report); }});
        print_sum(result, request.messages, request.is_strict);
    } catch (const std::runtime_error& error) {
        messages.wrong(error);
        result.wrong = 1;
    }
    messages.end();
    return result.wrong > 0 || (request.is_strict && result.warnings > 0);
}

}  // namespace hocket::tools
