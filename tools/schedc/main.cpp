// schedc: checks, formats, explains, predicts, synthesizes and imports schedules, and simulates training
// jobs.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "dsl/base/closest.hpp"
#include "dsl/base/diagnostic.hpp"
#include "runtime/base/error.hpp"
#include "runtime/engine/job/options.hpp"
#include "tools/quantity_options.hpp"
#include "tools/schedc/check.hpp"
#include "tools/schedc/explain.hpp"
#include "tools/schedc/format.hpp"
#include "tools/schedc/import.hpp"
#include "tools/schedc/lsp/serve.hpp"
#include "tools/schedc/predict.hpp"
#include "tools/schedc/simulate.hpp"
#include "tools/schedc/synthesize.hpp"
#include "tools/tool.hpp"
#include "tools/version_option.hpp"

using namespace hocket;

namespace {

template <typename Row, std::size_t size>
std::map<std::string, Row> by_name(const Row (&rows)[size]) {
    std::map<std::string, Row> names;
    for (const Row row : rows) names.emplace(name_of(row), row);
    return names;
}
const std::map<std::string, DataType> types = by_name(all_types);
const std::map<std::string, ReduceOp> ops = by_name(all_ops);

// CLI11 would show the enumerators' bytes beside their names, in the help and in errors.
template <class Map>
CLI::Validator one_of(const Map& map) {
    std::string names;
    for (const auto& [name, value] : map) names += (names.empty() ? "{" : ",") + name;
    return CLI::Validator(
        [&map, names](std::string& text) -> std::string {
            const auto found = map.find(text);
            if (found == map.end()) return "'" + text + "' is not one of " + names + "}";
            text = std::to_string(static_cast<int>(found->second));
            return "";
        },
        names + "}");
}

void describe_timeout(CLI::App& app, double& seconds, const std::string& what) {
    app.add_option("--timeout", seconds, "the longest that " + what + " may take: seconds")
        ->check(tools::is_timeout())
        ->capture_default_str();
}

// An empty text would mean the topology's links.
void describe_network(CLI::App& app, std::string& network, const std::string& what) {
    app.add_option("-N,--network", network, what)
        ->check(CLI::Validator(
            [](std::string& text) -> std::string {
                return text.empty()
                           ? "the network is empty; leave --network out, or give one: 'switch@10Gb/s'"
                           : "";
            },
            ""));
}

const std::map<std::string, tools::MessageFormat> message_formats{{"human", tools::MessageFormat::human},
                                                                  {"json", tools::MessageFormat::json},
                                                                  {"sarif", tools::MessageFormat::sarif}};
const std::map<std::string, tools::Colour> colours{
    {"auto", tools::Colour::by_terminal}, {"always", tools::Colour::always}, {"never", tools::Colour::never}};

void describe_colour(CLI::App& app, tools::Colour& colour) {
    app.add_option("--color", colour, "colours in errors; auto: on a terminal, if NO_COLOR is not set")
        ->transform(one_of(colours));
}

void describe_messages(CLI::App& app, tools::MessageOptions& options) {
    app.add_option("--message-format", options.format,
                   "errors for people, or on standard output: a JSON object a line, or one SARIF log")
        ->transform(one_of(message_formats));
    describe_colour(app, options.colour);
}

void describe_check(CLI::App& app, tools::CheckRequest& request) {
    app.add_option(
           "files", request.options.files,
           "files, file:name, 'file:name(arguments)', folders: all .sched files below; -: standard input")
        ->required();
    app.add_option(
        "-t,--topology", request.options.topologies,
        "check schedules on these instead of a set of small ones; innermost level first: 2x3, bcube(3,2)");
    app.add_option("-n,--ranks", request.options.group_sizes,
                   "check algorithms on groups of these sizes instead of 1 to 17, 32, 64 and what `where` "
                   "allows, and "
                   "schedules on topologies of as many ranks if neither -t nor their file has topologies")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--with", request.with,
                   "check with each of these values of a parameter instead of its default: radix=2,3,8")
        ->allow_extra_args(false);
    app.add_flag("-q,--quiet", request.messages.quiet, "print only what is wrong");
    app.add_flag(
        "--strict", request.is_strict,
        "end with 1 for a warning, too: a transfer or a name that is not needed, or elements that are lost");
    describe_messages(app, request.messages);
    describe_timeout(app, request.options.timeout, "planning one schedule on one topology");
}

void describe_format(CLI::App& app, tools::FormatOptions& options) {
    app.add_option("files", options.files, "files, or folders: all .sched files below; -: standard input")
        ->required();
    app.add_flag("--check", options.check,
                 "write nothing; name the files that would change, and exit with 1");
    app.add_flag("--diff", options.diff, "write nothing; show what would change, and then exit with 1");
    describe_messages(app, options.messages);
}

void describe_explain(CLI::App& app, tools::ExplainOptions& options) {
    app.add_option(
        "schedule", options.schedule,
        "a name, name(arguments), file or file:name; default: the schedule that is chosen for the topology");
    app.add_option(
        "-t,--topology", options.topology,
        "levels, innermost first: 2x3, 4mx2h (4 ranks in memory on each of 2 hosts), bcube(3,2), or a file");
    app.add_option("-b,--bytes", options.bytes, "the size that choices are made for: 64K")
        ->transform(tools::as_size());
    app.add_option("-n,--ranks", options.ranks, "number of ranks; without --topology, all on one level")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("-r,--rank", options.rank,
                   "the rank to explain (graph, dot and json: all ranks without it)");
    app.add_option("-c,--collective", options.collective,
                   "the collective: of the choice without a schedule, or if the schedule exists for several")
        ->type_name("NAME");
    app.add_option("--root", options.root, "the root, if the collective has one");
    app.add_option("-e,--emit", options.emit, "steps, ast, graph, dot, json, llvm, asm or ptx")
        ->check(CLI::IsMember({"steps", "ast", "graph", "dot", "json", "llvm", "asm", "ptx"}))
        ->capture_default_str();
    app.add_option("-d,--dtype,--type", options.type, "the element type, of machine code and of selections")
        ->transform(one_of(types));
    app.add_option("-o,--op", options.op, "llvm, asm, ptx: reduction")->transform(one_of(ops));
    describe_timeout(app, options.timeout, "planning one schedule on one topology");
}

void describe_predict(CLI::App& app, tools::PredictRequest& request) {
    app.add_option("schedule", request.schedules,
                   "a name, name(arguments), file or file:name; with --sweep also several; default: the "
                   "schedule that is "
                   "chosen for the topology");
    app.add_option(
        "-t,--topology", request.topology,
        "levels, innermost first: 2x3, 4mx2h (4 ranks in memory on each of 2 hosts), bcube(3,2), or a file");
    app.add_option("-b,--bytes", request.bytes, "the size of the data: 64M")->transform(tools::as_size());
    describe_network(
        app, request.network,
        "the links, if not the topology's: 'fattree(16)@10Gb/s', 'order digits', or FILE.network");
    app.add_option("-n,--ranks", request.ranks, "number of ranks; without --topology, all on one level")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("-c,--collective", request.collective,
                   "the collective: of the choice without a schedule, or if the schedule exists for several")
        ->type_name("NAME");
    app.add_option("--root", request.root, "the root, if the collective has one");
    app.add_option_function<std::vector<std::string>>(
           "--parameter",
           [&](const std::vector<std::string>& texts) { request.parameters = tools::parameters_in(texts); },
           "of a schedule that takes numbers at each start: density=0.001; may be given for several")
        ->check(tools::is_assignment)
        ->allow_extra_args(false);
    app.add_option("-d,--dtype,--type", request.type,
                   "the element type: a selected value takes its bytes, and 4 for its index")
        ->transform(one_of(types));
    app.add_flag("--ideal", request.ideal,
                 "messages cost latency and bytes alone: for comparing with closed forms");
    app.add_flag("--json", request.json, "print JSON: seconds, lines, levels, links");
    app.add_option("--timeline", request.timeline, "write a picture of all messages to this SVG file");
    app.add_option("--trace", request.trace, "write a trace for ui.perfetto.dev to this JSON file");
    app.add_option("--export", request.exported,
                   "write the schedule for another simulator: goal FILE, for LogGOPSim")
        ->check(CLI::IsMember({"goal"}).application_index(0))
        ->type_name("goal FILE");
    CLI::Option* sweep =
        app.add_option("--sweep", request.sweep, "predict a table: bytes=1K..1G,ranks=2..64");
    app.add_option("--csv", request.csv, "write the table of the sweep to this file, too")->needs(sweep);
    app.add_option("--svg", request.svg, "draw the table of the sweep as curves in this file, too")
        ->needs(sweep);
    app.add_flag("--certify", request.certify, "check that each sharing of links is max-min fair");
    for (const char* one : {"--json", "--timeline", "--trace", "--export"})
        sweep->excludes(app.get_option(one));
    describe_timeout(app, request.timeout, "planning a schedule and predicting one size");
}

void describe_simulate(CLI::App& app, tools::SimulateRequest& request) {
    app.add_option("workload", request.workload, "hosts, network and jobs, as JSON")->required();
    describe_network(app, request.network, "the links, if not the file's: 'fattree(16)/4@10Gb/s'");
    app.add_option("--seeds", request.seeds,
                   "draw places, trees and routes this often, with one seed after the other")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_flag("--json", request.json, "print JSON: each exchange of each job, bytes of links");
    app.add_flag("--certify", request.certify, "check that each sharing of links is max-min fair");
    describe_timeout(app, request.timeout, "all");
}

void describe_synthesize(CLI::App& app, tools::SynthesizeRequest& request) {
    app.add_option("collective", request.collective,
                   "all_gather, reduce_scatter, all_reduce, broadcast, reduce or all_to_all")
        ->required();
    app.add_option(
        "-t,--topology", request.topology,
        "levels, innermost first: 2x3, 4mx2h (4 ranks in memory on each of 2 hosts), bcube(3,2), or a file");
    describe_network(
        app, request.network,
        "the links, if not the topology's: 'torus(8,8)@100Gb/s', 'link 0 1 25GB/s; ...', or FILE.network");
    app.add_option("-n,--ranks", request.ranks, "number of ranks; without --topology, all on one level")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("-b,--bytes", request.bytes, "the size of the data that the schedule is for: 64M (1G)")
        ->transform(tools::as_size());
    app.add_option("--root", request.root,
                   "the root of what is predicted, if the collective has one; the schedule is for all roots");
    app.add_option("--seconds", request.seconds, "the longest that all may take")
        ->check(tools::is_timeout())
        ->capture_default_str();
    app.add_option("-o,--output", request.output, "the file; default: standard output");
    app.add_option("--name", request.name, "of the schedule")->capture_default_str();
    app.add_flag("--bound", request.only_bound,
                 "only print the least time that the worst cut allows, and that cut");
}

void describe_import(CLI::App& app, tools::ImportRequest& request) {
    app.add_option("file", request.input,
                   "an algorithm of MSCCL, as XML, or of MSCCL++, as JSON; -: standard input")
        ->required();
    app.add_option("-o,--output", request.output, "the file of the schedule; default: standard output");
    describe_timeout(app, request.timeout, "proving the schedule");
}

// CLI11 would only say that a subcommand is required.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
    const std::string given = argc > 1 ? argv[1] : "";
    if (given.empty() || given[0] == '-') return "";
    std::vector<std::string> names;
    std::string listed;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (command->get_name() == given) return "";
        names.push_back(command->get_name());
        listed += (listed.empty() ? "" : ", ") + command->get_name();
    }
    return fmt::format("there is no subcommand '{}'{}\n  hint: these are the subcommands: {}", given,
                       dsl::did_you_mean(given, names), listed);
}

int run(int argc, char** argv, tools::Colour& colour) {
    CLI::App app{"Checks, explains and predicts Hocket's schedules."};
    app.require_subcommand(1);
    tools::add_version(app, "schedc");
    tools::CheckRequest check;
    tools::ExplainOptions explain;
    CLI::App* check_app =
        app.add_subcommand("check", "parse and verify every algorithm and schedule of files");
    CLI::App* explain_app = app.add_subcommand("explain", "show what a rank does, with source lines");
    CLI::App* predict_app =
        app.add_subcommand("predict", "say how long a schedule takes, and where the time goes");
    CLI::App* simulate_app =
        app.add_subcommand("simulate", "say how long iterations of training jobs take on a network");
    CLI::App* format_app = app.add_subcommand("fmt", "lay out files in the style of Hocket's own");
    describe_check(*check_app, check);
    tools::FormatOptions format;
    describe_format(*format_app, format);
    tools::PredictRequest predict;
    describe_predict(*predict_app, predict);
    describe_explain(*explain_app, explain);
    tools::SimulateRequest simulate;
    describe_simulate(*simulate_app, simulate);
    tools::SynthesizeRequest synthesize;
    CLI::App* synthesize_app = app.add_subcommand("synthesize", "make a schedule for a network");
    describe_synthesize(*synthesize_app, synthesize);
    tools::ImportRequest import;
    CLI::App* import_app =
        app.add_subcommand("import", "make a schedule of an algorithm of MSCCL or MSCCL++");
    describe_import(*import_app, import);
    CLI::App* lsp_app =
        app.add_subcommand("lsp", "serve an editor, by the language server protocol on stdin and stdout");
    for (CLI::App* command : {explain_app, predict_app, simulate_app, synthesize_app, import_app})
        describe_colour(*command, colour);
    if (const std::string wrong = unknown_command(app, argc, argv); !wrong.empty()) {
        tools::say("error: {}", wrong);
        return 2;
    }
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : 2;
    }
    if (format_app->parsed()) return tools::run_format(format);
    check.options.search_path = explain.search_path = predict.search_path = simulate.search_path =
        engine::resolve(engine::Choices{}).schedule_path;
    if (lsp_app->parsed()) return tools::run_language_server(check.options.search_path);
    if (simulate_app->parsed()) return tools::run_simulate(simulate);
    tools::Waiting waiting;
    explain.waiting = predict.waiting = synthesize.waiting = &waiting;
    synthesize.search_path = import.search_path = predict.search_path;
    import.watcher = &waiting;
    import.messages.colour = colour;
    if (import_app->parsed()) return tools::run_import(import);
    if (synthesize_app->parsed()) return tools::run_synthesize(synthesize);
    if (predict_app->parsed()) return tools::run_predict(predict);
    return check_app->parsed() ? tools::run_check(std::move(check)) : tools::run_explain(explain);
}

}  // namespace

int main(int argc, char** argv) {
    return tools::run_tool("error", [&] {
        tools::Colour colour = tools::Colour::by_terminal;
        try {
            return run(argc, argv, colour);
        } catch (const dsl::DiagnosticError& error) {
            tools::say("{}", render(error.report(), tools::palette_of(colour)));
            return 1;
        }
    });
}
