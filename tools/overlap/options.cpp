#include "tools/overlap/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "tools/quantity_options.hpp"
#include "tools/version_option.hpp"

namespace hocket::overlap_tool {
namespace {

constexpr const char* about = "Plans in which batches a model's layers communicate while others compute.";

constexpr const char* examples = R"(Examples:
  hocket-overlap plan examples/overlap/resnet-50.json
  hocket-overlap plan profile.json --backward --bucket 1MiB
  hocket-overlap plan profile.json --picture plans.svg --json >plans.json

A profile is JSON, in seconds, the model's first layer first; name and bytes may be left out:
  {"startup": 0.001, "layers": [{"name": "conv1", "transfer": 0.002, "compute": 0.003, "bytes": 37888}]}
One that was measured with a parameter service also has the layers' forward passes ("forward"), and what pulls
cost ("pull").
It ends with 0; with 1 if something failed; with 2 if the command line is wrong.)";

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, int& exit_code) {
    Options options;
    CLI::App app{about, "hocket-overlap"};
    app.require_subcommand(1);
    app.footer(examples);
    tools::add_version(app, "hocket-overlap");

    auto* plan =
        app.add_subcommand("plan", "Shows the plan of each method for a profile, and how long it takes");
    plan->add_option("PROFILE", options.profile, "a file with the times of the model's layers")->required();
    plan->add_flag(
        "--backward", options.is_backward,
        "layers compute from the last to the first, and communicate then (gradients); without it, they "
        "communicate and compute then (weights), and a profile that has forward passes is planned for both");
    plan->add_flag("--json", options.json, "as JSON");
    plan->add_option("--picture", options.picture,
                     "also a picture, as an SVG file: the times of computation and communication");
    plan->add_option("--limit", options.planning.limit_bytes,
                     "the most bytes of a batch, \"4MiB\"; a layer above it is a batch by itself")
        ->transform(tools::as_size())
        ->check(CLI::PositiveNumber);
    plan->add_option("--bucket", options.planning.bucket_bytes,
                     "the bytes of the method of constant buckets (default: 25MiB)")
        ->transform(tools::as_size())
        ->check(CLI::PositiveNumber);
    try {
        app.parse(argc, argv);
        if (options.is_backward) options.planning.direction = overlap::Direction::backward;
        return options;
    } catch (const CLI::ParseError& error) {
        exit_code = app.exit(error) == 0 ? 0 : 2;
        return std::nullopt;
    }
}

}  // namespace hocket::overlap_tool
