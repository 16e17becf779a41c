// hocket-params status: asks all servers of a job, and shows their answers.
#include <nlohmann/json.hpp>

#include "dsl/base/readable.hpp"
#include "tools/params/commands.hpp"
#include "tools/texts.hpp"
#include "tools/tool.hpp"

namespace hocket::params_tool {
namespace {

using Json = nlohmann::json;

Json ask(const std::string& address, std::int64_t timeout_ms) {
    const char* text = nullptr;
    check(hkt_params_status(address.c_str(), nullptr, timeout_ms, &text));
    return Json::parse(text);
}

std::string bytes(const Json& number) {
    return tools::bytes_text(number.get<double>());
}

// Returns the value as JSON, in which it is shown: names come from workers and may contain anything.
std::string plain(const Json& value) {
    return value.is_string() ? dsl::readable(value.get<std::string>(), "") : value.dump();
}

void show_workers(const Json& workers) {
    if (workers.empty()) return;
    fmt::print("  {:>6}  {:<22}{:<20}{:<8}{:<9}{:>8}{:>11}{:>11}  {}\n", "worker", "at", "rack", "below",
               "answers", "rounds", "received", "sent", "memory");
    for (const Json& worker : workers)
        fmt::print("  {:>6}  {:<22}{:<20}{:<8}{:<9}{:>8}{:>11}{:>11}  {}\n", plain(worker.at("number")),
                   plain(worker.at("at")), plain(worker.at("rack")), plain(worker.at("parent")),
                   worker.at("answers").get<bool>() ? "yes" : "NO", plain(worker.at("pushed")),
                   bytes(worker.at("received")), bytes(worker.at("sent")),
                   worker.at("shares_memory").get<bool>() ? "shared" : "");
}

// Returns a text like "3 of 6 chunks, 1.2 MB of 2.4 MB".
std::string share(const Json& server) {
    return fmt::format("{} of {}, {} of {}", plain(server.at("chunks")),
                       tools::count_text(server.at("model_chunks").get<std::uint64_t>(), "chunk"),
                       bytes(server.at("bytes")), bytes(server.at("model_bytes")));
}

void show(const Json& server) {
    if (server.at("server").is_null())
        fmt::print("a server without a number at {}: ", plain(server.at("at")));
    else
        fmt::print("server {} at {}: ", plain(server.at("server")), plain(server.at("at")));
    const std::string waits_for = plain(server.value("waits_for", Json("")));
    if (server.contains("trouble")) {
        fmt::print("{}\n", plain(server.at("trouble")));
    } else if (server.contains("unused")) {
        fmt::print("{}\n", plain(server.at("unused")));
    } else if (!server.contains("clock")) {
        fmt::print("the job has not begun: {}\n", waits_for);
    } else {
        fmt::print("round {}, epoch {}\n", plain(server.at("clock")), plain(server.at("epochs")));
        if (!waits_for.empty()) fmt::print("  waits: {}\n", waits_for);
        if (server.contains("checkpoint_trouble"))
            fmt::print("  TROUBLE: {}\n", plain(server.at("checkpoint_trouble")));
        for (const Json& lost : server.value("lost", Json::array())) fmt::print("  LOST: {}\n", plain(lost));
        fmt::print("  keeps {}\n  update {}\n  staleness {}, tree {}, {}\n", share(server),
                   plain(server.at("update")), plain(server.at("staleness")), plain(server.at("tree")),
                   tools::count_text(server.at("workers").size(), "worker"));
        show_workers(server.at("workers"));
    }
}

}  // namespace

int status(const Options& options) {
    Json servers = Json::array({ask(options.address, options.timeout_ms)});
    const Json places = servers[0].value("servers", Json::array());
    int exit_code = 0;
    for (std::size_t i = 1; i < places.size(); ++i) try {
            servers.push_back(ask(places[i].get<std::string>(), options.timeout_ms));
        } catch (const std::exception& error) {
            servers.push_back({{"server", i}, {"at", places[i]}, {"trouble", error.what()}});
            exit_code = 1;
        }
    if (options.json)
        fmt::print("{}\n", servers.dump(2));
    else
        for (const Json& server : servers) show(server);
    return exit_code;
}

}  // namespace hocket::params_tool
