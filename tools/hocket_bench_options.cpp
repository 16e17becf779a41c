#include "tools/hocket_bench_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <sstream>
#include <stdexcept>

#include "runtime/log.hpp"

namespace hocket::bench {
namespace {

const std::map<std::string, hkt_collective> collectives{{"all_reduce", HKT_ALL_REDUCE},
                                                        {"reduce_scatter", HKT_REDUCE_SCATTER},
                                                        {"all_gather", HKT_ALL_GATHER},
                                                        {"broadcast", HKT_BROADCAST}};
const std::map<std::string, std::vector<hkt_type>> types{
    {"float32", {HKT_FLOAT32}}, {"float", {HKT_FLOAT32}},
    {"float64", {HKT_FLOAT64}}, {"double", {HKT_FLOAT64}},
    {"int32", {HKT_INT32}},     {"int", {HKT_INT32}},
    {"int64", {HKT_INT64}},     {"all", {HKT_FLOAT32, HKT_FLOAT64, HKT_INT32, HKT_INT64}}};
const std::map<std::string, std::vector<hkt_op>> ops{
    {"sum", {HKT_SUM}}, {"max", {HKT_MAX}}, {"min", {HKT_MIN}}, {"all", {HKT_SUM, HKT_MAX, HKT_MIN}}};
const std::map<std::string, std::vector<hkt_executor>> executors{
    {"default", {HKT_EXECUTOR_DEFAULT}},
    {"jit", {HKT_EXECUTOR_JIT}},
    {"interpreter", {HKT_EXECUTOR_INTERPRETER}},
    {"both", {HKT_EXECUTOR_JIT, HKT_EXECUTOR_INTERPRETER}}};

template <class Map>
CLI::IsMember one_of(const Map& map) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : map) keys.push_back(key);
    return CLI::IsMember(keys);
}

const CLI::Validator is_size(
    [](std::string& text) -> std::string {
        try {
            parse_bytes(text);
            return "";
        } catch (const std::invalid_argument& error) {
            return error.what();
        }
    },
    "SIZE");

}  // namespace

std::size_t parse_bytes(const std::string& text) {
    std::size_t used = 0;
    double value = -1;
    try {
        value = std::stod(text, &used);
    } catch (const std::exception&) {
    }
    const std::string suffix = text.substr(used);
    const std::map<std::string, double> units{{"", 1},       {"k", 0x1p10},  {"K", 0x1p10},   {"KiB", 0x1p10},
                                              {"m", 0x1p20}, {"M", 0x1p20},  {"MiB", 0x1p20}, {"g", 0x1p30},
                                              {"G", 0x1p30}, {"GiB", 0x1p30}};
    const auto unit = units.find(suffix);
    if (!(value >= 0) || unit == units.end() || value * unit->second > 0x1p50)
        throw std::invalid_argument("'" + text + "' is no size: write bytes, or a number with K, M or G");
    return static_cast<std::size_t>(value * unit->second);
}

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
    CLI::App app{"Measures and checks a collective. Start it with hocket-run -n N.", "hocket-bench"};
    std::string collective, min = "8", max = "4M", step = "0", type = "float32", op = "sum",
                            executor = "default", memory = "shared";
    Options options;
    int check = 1;
    app.add_option("COLLECTIVE", collective)->required()->check(one_of(collectives));
    app.add_option("-b,--minbytes", min, "smallest size")->check(is_size)->capture_default_str();
    app.add_option("-e,--maxbytes", max, "largest size")->check(is_size)->capture_default_str();
    auto* by_step = app.add_option("-i,--stepbytes", step, "add this from size to size")->check(is_size);
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
    app.add_option("-r,--root", options.root, "broadcast's root; -1: each rank in turn")
        ->capture_default_str();
    app.add_option("--schedule", options.schedule, "name in the library, or a .sched file");
    app.add_option("--topology", options.topology,
                   "\"2x3\" (innermost first), \"bcube(3,2)\" or a .sched file");
    app.add_option("--provider", options.provider,
                   "for all messages: tcp, or one of libfabric's; default: memory inside a host");
    app.add_option("--executor", executor, "what runs the plan")
        ->check(one_of(executors))
        ->capture_default_str();
    app.add_option("--memory", memory, "of the buffers: shared (hkt_mem_alloc) or private (malloc)")
        ->check(CLI::IsMember({"shared", "private"}))
        ->capture_default_str();
    app.add_flag("--back-to-back", options.back_to_back,
                 "time a loop without barriers, as always where ranks share no clock");
    app.add_option("--json", options.json_file, "write everything to this file too");
    app.add_flag("-v,--verbose", options.verbose,
                 "print rank 0's steps, and for each size the schedule and why");
    try {
        app.parse(argc, argv);
        options.min_bytes = parse_bytes(min);
        options.max_bytes = parse_bytes(max);
        options.step_bytes = parse_bytes(step);
        if (options.min_bytes > options.max_bytes)
            throw CLI::ValidationError("--minbytes " + min + " is above --maxbytes " + max +
                                       ": no size to run");
    } catch (const CLI::ParseError& error) {
        std::ostringstream out, err;
        exit_code = app.exit(error, out, err) == 0 ? 0 : 2;
        if (!quiet) fmt::print("{}", out.str()), write_log(err.str(), endless_patience);
        return std::nullopt;
    }
    options.collective = collectives.at(collective);
    options.check = check == 1;
    options.shared_memory = memory == "shared";
    options.types = types.at(type);
    options.ops = has_op(options.collective) ? ops.at(op) : std::vector<hkt_op>{HKT_SUM};
    options.executors = executors.at(executor);
    return options;
}

const char* name_of(hkt_collective collective) {
    for (const auto& [name, value] : collectives)
        if (value == collective) return name.c_str();
    return "?";
}

const char* name_of(hkt_type type) {
    constexpr const char* names[] = {"float32", "float64", "int32", "int64"};
    return names[type];
}

const char* name_of(hkt_op op) {
    constexpr const char* names[] = {"sum", "max", "min"};
    return names[op];
}

const char* name_of(hkt_executor executor) {
    constexpr const char* names[] = {"default", "jit", "interpreter"};
    return names[executor];
}

}  // namespace hocket::bench
