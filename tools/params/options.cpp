#include "tools/params/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "capi/hocket.h"

namespace hocket::params_tool {
namespace {

constexpr const char* about = "Serves the weights of a model to training jobs, and shows how a service is.";

constexpr const char* examples = R"(Examples:
  export HOCKET_SECRET=$(head -c 24 /dev/urandom | base64)
  hocket-params serve --listen :7000 --servers 2
  hocket-params serve --join first-host:7000
      two servers, for workers with HOCKET_PARAMS_ADDRESS=first-host:7000 and the same HOCKET_SECRET
  hocket-params serve --listen :7000 --checkpoints /data/model --every 100 --restore --once
  hocket-params status first-host:7000

HOCKET_FABRIC_ADDR: the address of this host that others are told, if it has several.
It ends with 0; with 1 if something failed, or a server does not answer; with 2 if the command line is wrong.)";

constexpr std::int64_t a_day_ms = 24 * 3600 * 1000;

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, int& exit_code) {
    Options options;
    CLI::App app{about, "hocket-params"};
    app.require_subcommand(1);
    app.footer(examples);
    app.set_version_flag("--version", fmt::format("hocket-params {}", hkt_version()));

    auto* serve = app.add_subcommand("serve", "Keeps a share of the weights, until SIGINT or SIGTERM");
    serve->callback([&] { options.command = Command::serve; });
    serve
        ->add_option("--listen", options.listen,
                     "HOST:PORT, [IPV6]:PORT or :PORT (all addresses); port 0: any that is free")
        ->capture_default_str();
    auto* servers =
        serve->add_option("--servers", options.servers, "how many servers there are, this first one included")
            ->check(CLI::Range(1, 65536))
            ->capture_default_str();
    serve->add_option("--join", options.join, "HOST:PORT of the first server; without it, this is the first")
        ->excludes(servers);
    auto* checkpoints =
        serve->add_option("--checkpoints", options.checkpoints, "the folder for this server's checkpoint");
    serve->add_option("--every", options.every, "rounds between two checkpoints")
        ->check(CLI::PositiveNumber)
        ->needs(checkpoints)
        ->capture_default_str();
    auto* restore =
        serve->add_flag("--restore", options.restore, "goes on from the checkpoint in that folder")
            ->needs(checkpoints);
    serve
        ->add_option("--index", options.index, "whose checkpoint, if the folder has those of several servers")
        ->check(CLI::Range(0, 65535))
        ->needs(restore);
    serve->add_option("--silence-ms", options.silence_ms, "after which a worker is thought not to answer")
        ->check(CLI::Range(std::int64_t{1}, a_day_ms))
        ->capture_default_str();
    serve
        ->add_option("--return-ms", options.return_ms,
                     "after which a worker that does not answer is taken out")
        ->check(CLI::Range(std::int64_t{1}, a_day_ms))
        ->capture_default_str();
    serve->add_option("--rack", options.rack, "the rack of workers that are near it (default: this host)");
    serve->add_flag("--once", options.once, "ends when workers have come and all have left");

    auto* status = app.add_subcommand("status", "Shows the servers of a job, and its workers");
    status->callback([&] { options.command = Command::status; });
    status->add_option("ADDRESS", options.address, "HOST:PORT of the first server")
        ->envname("HOCKET_PARAMS_ADDRESS")
        ->required();
    status->add_option("--timeout-ms", options.timeout_ms, "the longest wait for a server's answer")
        ->check(CLI::Range(std::int64_t{1}, a_day_ms))
        ->capture_default_str();
    status->add_flag("--json", options.json, "as JSON");
    try {
        app.parse(argc, argv);
        return options;
    } catch (const CLI::ParseError& error) {
        exit_code = app.exit(error) == 0 ? 0 : 2;
        return std::nullopt;
    }
}

}  // namespace hocket::params_tool
