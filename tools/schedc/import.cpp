#include "tools/schedc/import.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "dsl/planning/check_files.hpp"
#include "tools/result_place.hpp"
#include "tools/schedc/inputs.hpp"
#include "tools/schedc/msccl/coarsen.hpp"
#include "tools/schedc/msccl/flow.hpp"
#include "tools/schedc/msccl/read.hpp"
#include "tools/schedc/msccl/rounds.hpp"
#include "tools/schedc/msccl/writing.hpp"
#include "tools/schedc/predict.hpp"
#include "tools/tool.hpp"

namespace hocket::tools {
namespace {

constexpr std::size_t most_bytes = 64 << 20;  // of a file

// What the file says, as a schedule that nobody has proved yet.
std::string translated(msccl::Algorithm algorithm) {
    msccl::Flow flow = msccl::execute(algorithm);
    msccl::shorten(flow);
    std::vector<msccl::Round> rounds = msccl::rounds_of(algorithm, flow);
    msccl::coarsen(algorithm, rounds);
    return msccl::text_of(algorithm, rounds);
}

// As `schedc check -n RANKS` does. Errors are said with the text's lines, whose comments name the file's
// steps.
bool is_proved(const ImportRequest& request, const msccl::Algorithm& algorithm, const std::string& text) {
    const std::string file = msccl::name_for(algorithm) + ".sched";
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
    const msccl::Algorithm algorithm = msccl::read_algorithm(source.path, source.text);
    const std::string text = translated(algorithm);
    if (!is_proved(request, algorithm, text)) {
        say("{}: not imported: the algorithm is not right; the lines above are of the schedule that it would "
            "be, and their comments name its steps",
            source.path);
        return 1;
    }
    if (request.output.empty())
        fmt::print("{}", text);
    else
        write_result(request.output, text);
    return 0;
}

}  // namespace hocket::tools
