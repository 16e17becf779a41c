#include "tools/params/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <stdexcept>

#include "tools/address.hpp"
#include "tools/version_option.hpp"

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
constexpr std::int64_t least_silence_ms = 200;  // hkt_params_server_start requires this

std::string refuse_no_address(const std::string& text) {
    std::string host;
    int port = 0;
    try {
        tools::parse_address(text, host, port);
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return "";
}

// The address of another process needs a host.
std::string refuse_no_other(const std::string& text) {
    const std::string why = refuse_no_address(text);
    return why.empty() && text.starts_with(':') ? "'" + text + "' has no host: write HOST:PORT" : why;
}

void check_times(const Options& options) {
    if (options.return_ms < options.silence_ms)
        throw CLI::ValidationError(
            "--return-ms", fmt::format("{} is less than --silence-ms, {}: a worker must be silent before "
                                       "others can go on without it",
                                       options.return_ms, options.silence_ms));
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv, int& exit_code) {
    Options options;
    CLI::App app{about, "hocket-params"};
    app.require_subcommand(1);
    tools::add_version(app, "hocket-params");

    auto* serve = app.add_subcommand("serve", "Keeps a share of the weights, until SIGINT or SIGTERM");
    serve->callback([&] {
        options.command = Command::serve;
        check_times(options);
    });
    serve
        ->add_option("--listen", options.listen,
                     "HOST:PORT, [IPV6]:PORT or :PORT (all addresses); port 0: any that is free")
        ->check(refuse_no_address)
        ->capture_default_str();
    auto* servers =
        serve->add_option("--servers", options.servers, "how many servers there are, this first one included")
            ->check(CLI::Range(1, 65536))
            ->capture_default_str();
    serve->add_option("--join", options.join, "HOST:PORT of the first server; without it, this is the first")
        ->check(refuse_no_other)
        ->excludes(servers);
    auto* checkpoints = serve->add_option("--checkpoints", options.checkpoints,
                                          "the folder for this server's checkpoint; it must exist");
    serve
        ->add_option("--every", options.every,
                     "rounds between two checkpoints; of the first server, which all take")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{UINT32_MAX}))
        ->needs(checkpoints)
        ->capture_default_str();
    auto* restore =
        serve->add_flag("--restore", options.restore, "goes on from the checkpoint in that folder")
            ->needs(checkpoints);
    serve
        ->add_option("--index", options.index,
                     "the number of the server whose checkpoint is used, if the folder has those of several")
        ->check(CLI::Range(0, 65535))
        ->needs(restore);
    auto* accept_torn =
        serve
            ->add_flag("--accept-torn", options.accept_torn,
                       "new workers go on from it also if the servers' checkpoints are of different rounds")
            ->needs(restore);
    serve
        ->add_option("--round", options.round,
                     "goes back to the checkpoint of all rounds below this one; all servers must")
        ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 60))
        ->needs(restore)
        ->excludes(accept_torn);
    serve->add_option("--silence-ms", options.silence_ms, "after which a worker is thought not to answer")
        ->check(CLI::Range(least_silence_ms, a_day_ms))
        ->capture_default_str();
    serve
        ->add_option("--return-ms", options.return_ms,
                     "after which a worker that does not answer is taken out; --silence-ms or more")
        ->check(CLI::Range(std::int64_t{1}, a_day_ms))
        ->capture_default_str();
    serve->add_option("--rack", options.rack, "the rack of workers that are near it (default: this host)");
    serve->add_flag("--once", options.once, "ends when workers have come and all have left");

    auto* status = app.add_subcommand("status", "Shows the servers of a job, and its workers");
    status->callback([&] { options.command = Command::status; });
    status->add_option("ADDRESS", options.address, "HOST:PORT of the first server")
        ->envname("HOCKET_PARAMS_ADDRESS")
        ->check(refuse_no_other)
        ->required();
    status->add_option("--timeout-ms", options.timeout_ms, "the longest wait for a server's answer")
        ->check(CLI::Range(std::int64_t{1}, a_day_ms))
        ->capture_default_str();
    status->add_flag("--json", options.json, "as JSON");
    app.footer(examples);  // follows the commands, whose help would include it otherwise
    try {
        app.parse(argc, argv);
        return options;
    } catch (const CLI::ParseError& error) {
        exit_code = app.exit(error) == 0 ? 0 : 2;
        return std::nullopt;
    }
}

}  // namespace hocket::params_tool
