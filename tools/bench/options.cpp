#include "tools/bench/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <span>
#include <sstream>
#include <stdexcept>

#include "capi/vocabulary.hpp"
#include "runtime/base/log.hpp"
#include "tools/bench/data.hpp"
#include "tools/quantity_options.hpp"
#include "tools/version_option.hpp"

namespace hocket::bench {
namespace {

// Accepts each constant by its name, `all`, and the names that nccl-tests uses for some.
template <typename Constant>
std::map<std::string, std::vector<Constant>> choices(std::span<const Constant> all,
                                                     const char* (*name_of)(Constant),
                                                     const std::map<std::string, std::string>& others) {
    std::map<std::string, std::vector<Constant>> choices{{"all", {all.begin(), all.end()}}};
    for (const Constant constant : all) choices[name_of(constant)] = {constant};
    for (const auto& [other, name] : others) choices[other] = choices.at(name);
    return choices;
}

const auto types =
    choices<hkt_type>(capi::all_types, hkt_type_name,
                      {{"float", "float32"}, {"double", "float64"}, {"half", "float16"}, {"int", "int32"}});
const auto ops = choices<hkt_op>(capi::all_ops, hkt_op_name,
                                 {{"prod", "product"}, {"avg", "average"}, {"mulsum", "premul_sum"}});
const std::map<std::string, std::vector<hkt_executor>> executors{
    {"default", {HKT_EXECUTOR_DEFAULT}},
    {"jit", {HKT_EXECUTOR_JIT}},
    {"interpreter", {HKT_EXECUTOR_INTERPRETER}},
    {"both", {HKT_EXECUTOR_JIT, HKT_EXECUTOR_INTERPRETER}}};

const std::map<std::string, MemoryKind> memories{
    {"shared", MemoryKind::shared}, {"private", MemoryKind::priv}, {"device", MemoryKind::device}};

template <class Map>
CLI::IsMember one_of(const Map& map) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : map) keys.push_back(key);
    return CLI::IsMember(keys);
}

std::string ops_of(hkt_type type) {
    std::vector<const char*> names;
    for (const hkt_op op : capi::all_ops)
        if (hkt_op_supports(op, type)) names.push_back(hkt_op_name(op));
    return fmt::format("{}", fmt::join(names, ", "));
}

std::string names_of_subjects() {
    std::vector<std::string> names;
    for (const Subject& subject : all_subjects()) names.push_back(subject.name());
    return fmt::format("{}", fmt::join(names, ", "));
}

const CLI::Validator is_subject(
    [](std::string& text) -> std::string {
        if (find_subject(text)) return "";
        return fmt::format(
            "'{}' cannot be measured; choose one of {}; or, before all options, a kernel: topk, scatter_add, "
            "norms",
            text, names_of_subjects());
    },
    "NAME");

constexpr std::size_t most_bytes = std::size_t{1} << 50;

}  // namespace

std::vector<std::size_t> sizes_of(const Options& options) {
    std::vector<std::size_t> sizes;
    for (std::size_t size = options.min_bytes; size <= options.max_bytes;) {
        sizes.push_back(size);
        if (options.step_bytes > 0)
            size += options.step_bytes;
        else
            size = size == 0 ? 1 : size * options.factor;
    }
    return sizes;
}

std::optional<Options> parse_options(int argc, char** argv, bool quiet, int& exit_code) {
    CLI::App app{
        "Measures and checks a collective, or messages between two ranks. Start it with hocket-run -n N. "
        "hocket-bench topk, scatter_add or norms measures a kernel by itself (hocket-bench topk --help).",
        "hocket-bench"};
    std::string collective, min = "8", max = "4M", step = "0", type = "float32", op = "sum",
                            executor = "default", memory = "shared";
    std::vector<std::string> parameters;
    Options options;
    int check = 1;
    app.add_option(
           "COLLECTIVE", collective,
           names_of_subjects() +
               ". With _v, counts by rank: the ranks' pieces are as 1 : 3 : 5 ..., and together as large "
               "as the size. sendrecv: each rank sends to the next one, out of place alone")
        ->required()
        ->check(is_subject);
    app.add_option("-b,--minbytes", min, "smallest size")->transform(tools::as_size())->capture_default_str();
    app.add_option("-e,--maxbytes", max, "largest size")->transform(tools::as_size())->capture_default_str();
    auto* by_step =
        app.add_option("-i,--stepbytes", step, "add this from size to size")->transform(tools::as_size());
    app.add_option("-f,--stepfactor", options.factor, "or multiply by this")
        ->check(CLI::Range(2, 1 << 20))
        ->capture_default_str()
        ->excludes(by_step);
    app.add_option("-n,--iters", options.iterations, "measured iterations")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app.add_option("-w,--warmup_iters", options.warmup, "iterations before them")
        ->check(CLI::Range(0, 1'000'000))
        ->capture_default_str();
    app.add_option("-c,--check", check, "check every element of the results")
        ->check(CLI::Range(0, 1))
        ->capture_default_str();
    app.add_option("-d,--datatype", type, "element type")->check(one_of(types))->capture_default_str();
    app.add_option("-o,--op", op, "reduction")->check(one_of(ops))->capture_default_str();
    app.add_option("-r,--root", options.root, "where the collective has one; -1: each rank in turn")
        ->capture_default_str();
    app.add_option("--schedule", options.schedule,
                   "name in the library, name(arguments), a .sched file, or file:name");
    app.add_option("--parameter", parameters,
                   "of a schedule that takes numbers at each start: rate=0.1; may be given for several")
        ->check(tools::is_assignment)
        ->allow_extra_args(false);
    app.add_option("--buffers", options.further_buffers,
                   "the number of buffers that the schedule takes beside x (after `with`); they have ones");
    app.add_option("-t,--topology", options.topology,
                   "\"2x3\" (innermost first), \"bcube(3,2)\" or a .sched file");
    app.add_option("--provider", options.provider,
                   "for messages between hosts: tcp (the default), card (a network card that all hosts have, "
                   "else tcp) or one of libfabric's");
    app.add_option("--provider-for-all", options.provider_for_all,
                   "for all messages; without it ranks of one host use memory");
    app.add_option("--executor", executor, "the executor of the plan")
        ->check(one_of(executors))
        ->capture_default_str();
    app.add_option(
           "--memory", memory,
           "of the buffers: shared (hkt_mem_alloc), private (malloc), or device (a CUDA device's: that of "
           "LOCAL_RANK, modulo the number of devices; times end when the device has the result)")
        ->check(one_of(memories))
        ->capture_default_str();
    app.add_flag("--back-to-back", options.back_to_back,
                 "time a loop without barriers, as always where ranks share no clock");
    auto* predict =
        app.add_flag("--predict", options.predict,
                     "measure out of place alone, and print the predicted time beside the measured one, and "
                     "their ratio");
    app.add_option("-N,--network", options.network,
                   "the links for --predict, if they are not the topology's: as schedc predict takes them")
        ->needs(predict);
    app.add_option("--json", options.json_file, "write everything to this file too");
    app.add_flag("-v,--verbose", options.verbose,
                 "print rank 0's steps, and for each size the schedule and why");
    tools::add_version(app, "hocket-bench");
    try {
        app.parse(argc, argv);
        options.min_bytes = dsl::parse_size(min);
        options.max_bytes = dsl::parse_size(max);
        options.step_bytes = dsl::parse_size(step);
        if (std::max(options.max_bytes, options.step_bytes) > most_bytes)
            throw CLI::ValidationError("sizes are at most 2^50 bytes");
        if (options.min_bytes > options.max_bytes)
            throw CLI::ValidationError(
                fmt::format("--minbytes, {}, is above --maxbytes, {}: no size to run",
                            dsl::text_of_size(static_cast<double>(options.min_bytes)),
                            dsl::text_of_size(static_cast<double>(options.max_bytes))));
        options.subject = find_subject(collective).value();
        options.types = types.at(type);
        options.ops = ops.at(op);
        if (pairs_of(options).empty())
            throw CLI::ValidationError("--op " + op + " does not exist for --datatype " + type +
                                       "; it takes " + ops_of(options.types[0]));
        if (!options.subject.has_plans() && executor == "both")
            throw CLI::ValidationError("--executor both takes a plan for each, and " + collective +
                                       " has none: run it once with jit, and once with interpreter");
        if (options.predict && !options.subject.has_plans())
            throw CLI::ValidationError("--predict is for what a schedule runs alike on all ranks: " +
                                       collective + " has no prediction");
        options.parameters = tools::parameters_in(parameters);
        if (!options.subject.has_plans() && (!parameters.empty() || options.further_buffers > 0))
            throw CLI::ValidationError("--parameter and --buffers are for the starts of a plan, and " +
                                       collective + " has none");
        if (options.subject.is_messages() && !options.schedule.empty())
            throw CLI::ValidationError("--schedule is for collectives: " + collective + " has none");
    } catch (const CLI::ParseError& error) {
        std::ostringstream out, err;
        exit_code = app.exit(error, out, err) == 0 ? 0 : 2;
        if (!quiet) fmt::print("{}", out.str()), write_log(err.str(), endless_patience);
        return std::nullopt;
    }
    options.check = check == 1;
    options.memory = memories.at(memory);
    options.executors = executors.at(executor);
    return options;
}

std::vector<std::pair<hkt_type, hkt_op>> pairs_of(const Options& options) {
    std::vector<std::pair<hkt_type, hkt_op>> pairs;
    for (const hkt_type type : options.types) {
        if (!options.subject.contract().combines()) pairs.emplace_back(type, options.ops[0]);
        for (const hkt_op op : options.ops)
            if (options.subject.contract().combines() && hkt_op_supports(op, type))
                pairs.emplace_back(type, op);
    }
    return pairs;
}

const char* name_of(hkt_executor executor) {
    constexpr const char* names[] = {"default", "jit", "interpreter"};
    return names[executor];
}

}  // namespace hocket::bench
