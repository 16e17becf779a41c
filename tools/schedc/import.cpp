#include "tools/schedc/import.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "dsl/planning/check_files.hpp"
#include "tools/result_place.hpp"
#include "tools/schedc/imports/coarsen.hpp"
#include "tools/schedc/imports/flow.hpp"
#include "tools/schedc/imports/msccl/execute.hpp"
#include "tools/schedc/imports/msccl/read.hpp"
#include "tools/schedc/imports/mscclpp/execute.hpp"
#include "tools/schedc/imports/mscclpp/read.hpp"
#include "tools/schedc/imports/rounds.hpp"
#include "tools/schedc/imports/shift.hpp"
#include "tools/schedc/imports/writing.hpp"
#include "tools/schedc/inputs.hpp"
#include "tools/schedc/predict.hpp"
#include "tools/tool.hpp"

namespace hocket::tools {
namespace {

constexpr std::size_t most_bytes = 64 << 20;  // of a file

// An algorithm, and what it moves.
struct Imported {
    imports::Algorithm algorithm;
    imports::Flow flow;
};

Imported from_msccl(const dsl::SourceFile& source) {
    imports::msccl::Program program = imports::msccl::read(source.path, source.text);
    imports::Flow flow = imports::msccl::execute(program);
    return {std::move(program.algorithm), std::move(flow)};
}

// A loop's rounds each have a part of the chunks, and how many there are is left to the size of messages. Two
// of them show whether rounds get into each other's way; the schedule is made of one.
Imported from_mscclpp(const dsl::SourceFile& source) {
    using namespace imports::mscclpp;
    Plan plan = read(source.path, source.text, 1);
    if (plan.has_loops) {
        Plan twice = read(source.path, source.text, 2);
        execute(twice);
    }
    imports::Flow flow = execute(plan);
    if (plan.is_shift) imports::find_shift(plan.algorithm, flow);
    return {std::move(plan.algorithm), std::move(flow)};
}

bool is_json(const dsl::SourceFile& source) {
    const std::string_view text = source.text;
    const std::size_t mark = text.starts_with("\xEF\xBB\xBF") ? 3 : 0;  // of UTF-8
    const std::size_t first = text.find_first_not_of(" \t\r\n", mark);
    if (first != text.npos && (text[first] == '{' || text[first] == '[')) return true;
    if (first != text.npos && text[first] == '<') return false;
    throw dsl::DiagnosticError(
        dsl::Span(),
        fmt::format("{}: the file {}, and so is neither MSCCL's XML nor MSCCL++'s JSON", source.path,
                    first == text.npos ? "is empty" : "begins with neither '<' nor '{'"),
        "an algorithm of MSCCL begins with <algo ...>, a plan of MSCCL++ with {");
}

// What the file says, as a schedule that nobody has proved yet.
std::string translated(Imported imported) {
    imports::shorten(imported.flow);
    std::vector<imports::Round> rounds = imports::rounds_of(imported.algorithm, imported.flow);
    imports::coarsen(imported.algorithm, rounds);
    return imports::text_of(imported.algorithm, rounds);
}

// As `schedc check -n RANKS` does. Errors are said with the text's lines, whose comments name the file's
// steps.
bool is_proved(const ImportRequest& request, const imports::Algorithm& algorithm, const std::string& text) {
    const std::string file = imports::name_for(algorithm) + ".sched";
    dsl::CheckOptions options;
    options.files = {file};
    options.texts[file] = text;
    options.group_sizes = {algorithm.ranks()};
    options.search_path = request.search_path;
    options.timeout = request.timeout;
    options.warns = false;
    options.watcher = request.watcher;
    Messages messages(request.messages);
    const dsl::CheckResult result = dsl::check_files(
        options,
        {[](const dsl::RightDefinition&) {}, [&](const dsl::Report& report) { messages.say_of(report); }});
    messages.end();
    return result.wrong == 0;
}

}  // namespace

int run_import(const ImportRequest& request) {
    if (!request.output.empty()) check_place(request.output);
    std::error_code differs;
    if (!request.output.empty() && std::filesystem::equivalent(request.input, request.output, differs))
        throw dsl::DiagnosticError(dsl::Span(),
                                   fmt::format("{} would be replaced by its schedule", request.input),
                                   "give another file to -o");
    const dsl::SourceFile source = read_source(request.input, most_bytes + 1);
    if (source.text.size() > most_bytes)
        throw dsl::DiagnosticError(
            dsl::Span(), fmt::format("{}: the file is larger than {} MiB", source.path, most_bytes >> 20),
            "larger algorithms are not imported");
    const Imported imported = is_json(source) ? from_mscclpp(source) : from_msccl(source);
    const imports::Algorithm& algorithm = imported.algorithm;
    const std::string text = translated(imported);
    if (!is_proved(request, algorithm, text)) {
        say("{}: not imported: the algorithm is not right; the lines above are of the schedule that it would "
            "be, and their comments name its {}s",
            source.path, algorithm.words->step);
        return 1;
    }
    if (request.output.empty())
        fmt::print("{}", text);
    else
        write_result(request.output, text);
    return 0;
}

}  // namespace hocket::tools
