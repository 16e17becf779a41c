// hocket-params serve: runs a server in its own process.
#include <memory>

#include "tools/params/commands.hpp"
#include "tools/signals.hpp"
#include "tools/tool.hpp"

namespace hocket::params_tool {
namespace {

constexpr std::chrono::milliseconds look_every{50};

struct Stop {
    void operator()(hkt_params_server* server) const { hkt_params_server_stop(server); }
};

}  // namespace

int serve(const Options& options) {
    tools::Signals signals;
    const auto text = [](const std::string& value) { return value.empty() ? nullptr : value.c_str(); };
    hkt_params_server_options wanted = HKT_PARAMS_SERVER_OPTIONS_INIT;
    wanted.listen = options.listen.c_str();
    wanted.join = text(options.join);
    wanted.servers = options.servers;
    wanted.checkpoints = text(options.checkpoints);
    wanted.checkpoint_every = options.every;
    wanted.restore = options.restore;
    wanted.index = options.index;
    wanted.round = options.round;
    wanted.accept_torn = options.accept_torn;
    wanted.rack = text(options.rack);
    wanted.silence_ms = options.silence_ms;
    wanted.return_ms = options.return_ms;
    hkt_params_server* started = nullptr;
    check(hkt_params_server_start(&wanted, &started));
    const std::unique_ptr<hkt_params_server, Stop> server(started);
    fmt::print("serving at {}\n", hkt_params_server_address(started));
    if (options.join.empty())
        fmt::print("workers: HOCKET_PARAMS_ADDRESS={} and the same HOCKET_SECRET; stop with Ctrl-C\n",
                   hkt_params_server_address(started));
    tools::flush_output();
    while (signals.wait(look_every) == 0) {
        const hkt_status status = hkt_params_server_wait(started, 0);
        check(status);
        if (options.once && status == HKT_SUCCESS) {
            fmt::print("all workers have left\n");
            break;
        }
    }
    check(hkt_params_server_finish(started));
    return 0;
}

}  // namespace hocket::params_tool
