#include "tools/bench/kernel_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <sstream>

#include "capi/vocabulary.hpp"
#include "runtime/base/log.hpp"
#include "runtime/compute/kernels/selection.hpp"
#include "tools/version_option.hpp"

namespace hocket::bench {
namespace {

const std::map<std::string, Kernel> kernels_by_name{
    {"topk", Kernel::topk}, {"scatter_add", Kernel::scatter_add}, {"norms", Kernel::norms}};
std::map<std::string, hkt_type> selectable_types() {
    std::map<std::string, hkt_type> types;
    for (const hkt_type type : capi::all_types)
        if (kernels::can_select(*capi::find_type(type))) types[hkt_type_name(type)] = type;
    return types;
}

}  // namespace

const char* name_of(Kernel kernel) {
    for (const auto& [name, each] : kernels_by_name)
        if (each == kernel) return name.c_str();
    return "?";
}

std::optional<Kernel> find_kernel(const std::string& name) {
    const auto found = kernels_by_name.find(name);
    return found == kernels_by_name.end() ? std::nullopt : std::optional(found->second);
}

std::optional<KernelOptions> parse_kernel_options(int argc, char** argv, int& exit_code) {
    CLI::App app{
        "Measures a kernel beside one read of its elements, std::nth_element on pairs (topk), and PyTorch "
        "where Python has it: medians of rounds in which each has its turn. In one process, without ranks.",
        "hocket-bench"};
    const auto types = selectable_types();
    KernelOptions options;
    std::string kernel, type = "float32";
    tools::add_version(app, "hocket-bench");
    app.add_option("KERNEL", kernel, "topk, scatter_add or norms")
        ->required()
        ->check(CLI::IsMember(kernels_by_name));
    app.add_option("--elements", options.elements, "of the dense tensor; with K or M, thousands or millions")
        ->transform(CLI::AsNumberWithUnit(std::map<std::string, std::size_t>{{"K", 1000}, {"M", 1'000'000}}))
        ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 32))
        ->capture_default_str();
    app.add_option("--density", options.density, "how many of them are selected, or added")
        ->check(CLI::Range(0., 1.))
        ->capture_default_str();
    app.add_option("--threads", options.threads, "of the kernel, the read and PyTorch")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    app.add_option("-d,--datatype", type, "element type")->check(CLI::IsMember(types))->capture_default_str();
    app.add_option("--thresholds", options.thresholds,
                   "topk: number of thresholds of the paper's algorithm; 0: exact")
        ->check(CLI::Range(0, 1000))
        ->capture_default_str();
    app.add_flag("--residual", options.residual, "topk: with error feedback");
    app.add_option("-n,--iters", options.iterations, "measured rounds")
        ->check(CLI::Range(1, 10'000))
        ->capture_default_str();
    app.add_option("--json", options.json_file, "write everything to this file too");
    try {
        app.parse(argc, argv);
        options.kernel = kernels_by_name.at(kernel);
        if (options.kernel != Kernel::topk && (options.residual || options.thresholds != 0))
            throw CLI::ValidationError("--residual and --thresholds are for topk");
    } catch (const CLI::ParseError& error) {
        std::ostringstream out, err;
        exit_code = app.exit(error, out, err) == 0 ? 0 : 2;
        fmt::print("{}", out.str());
        write_log(err.str(), endless_patience);
        return std::nullopt;
    }
    options.type = types.at(type);
    return options;
}

}  // namespace hocket::bench
