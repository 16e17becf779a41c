// hocket-params as people use it: servers in processes of their own, and a look at them.
#include <hocket.h>
#include <signal.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/multi/process.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using hocket::test::Process;
using hocket::test::run;
using Words = std::vector<std::string>;

namespace {

const Process::Environment secret{{"HOCKET_SECRET", "a secret"}};

std::string address_of(Process& server) {
    REQUIRE(server.wait_for_output("serving at ", 20s));
    REQUIRE(server.wait_for_output("\n", 20s));
    const std::string text = server.output_after("serving at ");
    return text.substr(0, text.find('\n'));
}

Words serve(const Words& more) {
    Words command{HOCKET_PARAMS, "serve", "--listen", "127.0.0.1:0"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
}

hkt_params* open_worker(const std::string& address) {
    const hkt_params_tensor tensor = {"w", 100000, HKT_INT64};
    hkt_params_options options = HKT_PARAMS_OPTIONS_INIT;
    options.address = address.c_str();
    options.secret = "a secret";
    hkt_params* params = nullptr;
    const hkt_status status = hkt_params_open(&tensor, 1, nullptr, &options, &params);
    INFO(hkt_last_error());
    REQUIRE(status == HKT_SUCCESS);
    return params;
}

}  // namespace

TEST_CASE("two servers take a worker, show it, and end when it has left") {
    Process first(serve({"--servers", "2", "--once"}), secret);
    const std::string address = address_of(first);
    const auto waiting = run({HOCKET_PARAMS, "status", address}, 20s, secret);
    CHECK(waiting.exit_code == 0);
    CHECK_THAT(waiting.out, Contains("1 of 2 servers have come"));
    Process second(serve({"--join", address, "--once"}), secret);
    address_of(second);

    hkt_params* const params = open_worker(address);
    std::vector<std::int64_t> values(100000, 3);
    const void* const gradient = values.data();
    void* const weights = values.data();
    CHECK(hkt_params_push(params, 0, 1, &gradient, nullptr) == HKT_SUCCESS);
    CHECK(hkt_params_clock(params, nullptr) == HKT_SUCCESS);
    CHECK(hkt_params_pull(params, 0, 1, &weights, 0, nullptr) == HKT_SUCCESS);
    CHECK(values == std::vector<std::int64_t>(100000, 3));

    const auto shown = run({HOCKET_PARAMS, "status", address}, 20s, secret);
    INFO(shown.out << shown.err);
    CHECK(shown.exit_code == 0);
    CHECK_THAT(shown.out, Contains("server 0 at " + address + ": round 1"));
    CHECK_THAT(shown.out, Contains("server 1 at "));
    CHECK_THAT(shown.out, Contains("1 worker"));
    const auto json =
        nlohmann::json::parse(run({HOCKET_PARAMS, "status", address, "--json"}, 20s, secret).out);
    CHECK(json.size() == 2);
    CHECK(json[1].at("workers")[0].at("answers") == true);

    hkt_params_close(params);
    CHECK(first.finish(20s).exit_code == 0);
    CHECK(second.finish(20s).exit_code == 0);
}

TEST_CASE("servers that are killed go on from their checkpoints, with the commands of the documentation") {
    const hocket::test::TemporaryFolder folder;
    const auto checkpoints = [&](const std::string& name) {
        std::filesystem::create_directory(folder.path() + name);
        return folder.path() + name;
    };
    const std::string a = checkpoints("/a"), b = checkpoints("/b");
    auto first = std::make_unique<Process>(serve({"--servers", "2", "--once", "--checkpoints", a}), secret);
    const std::string address = address_of(*first);
    auto second = std::make_unique<Process>(serve({"--join", address, "--once", "--checkpoints", b}), secret);
    address_of(*second);
    hkt_params* const params = open_worker(address);
    std::vector<std::int64_t> values(100000);
    const auto round = [&](std::int64_t sum) {
        values.assign(values.size(), 1);
        const void* const gradient = values.data();
        void* const weights = values.data();
        CHECK(hkt_params_push(params, 0, 1, &gradient, nullptr) == HKT_SUCCESS);
        CHECK(hkt_params_clock(params, nullptr) == HKT_SUCCESS);
        CHECK(hkt_params_pull(params, 0, 1, &weights, 0, nullptr) == HKT_SUCCESS);
        CHECK(values == std::vector<std::int64_t>(values.size(), sum));
    };
    round(1);
    CHECK(hkt_params_checkpoint(params, nullptr) == HKT_SUCCESS);
    round(2);  // which is in no checkpoint
    kill(second->pid(), SIGKILL);
    CHECK(second->finish(20s).exit_code != 0);
    second = std::make_unique<Process>(serve({"--restore", "--checkpoints", b, "--join", address, "--once"}),
                                       secret);
    round(3);
    kill(first->pid(), SIGKILL);
    CHECK(first->finish(20s).exit_code != 0);
    first = std::make_unique<Process>(
        Words{HOCKET_PARAMS, "serve", "--restore", "--checkpoints", a, "--listen", address, "--once"},
        secret);
    round(4);
    hkt_params_close(params);
    CHECK(first->finish(20s).exit_code == 0);
    CHECK(second->finish(20s).exit_code == 0);
}

TEST_CASE("a server ends with a signal, and says what is wrong with its options") {
    Process server(serve({}), secret);
    const std::string address = address_of(server);
    const auto stranger = run({HOCKET_PARAMS, "status", address}, 20s, {{"HOCKET_SECRET", "another"}});
    CHECK(stranger.exit_code == 1);
    CHECK_THAT(stranger.err, Contains("secret"));
    kill(server.pid(), SIGTERM);
    CHECK(server.finish(20s).exit_code == 0);
    const auto gone = run({HOCKET_PARAMS, "status", address, "--timeout-ms", "500"}, 20s, secret);
    CHECK(gone.exit_code == 1);
    CHECK_THAT(gone.err, Contains(address));

    CHECK(run(serve({"--restore"}), 20s, secret).exit_code == 2);
    CHECK(run({HOCKET_PARAMS}, 20s).exit_code == 2);
    CHECK(run({HOCKET_PARAMS, "--help"}, 20s).exit_code == 0);
    const auto without = run({"env", "-u", "HOCKET_SECRET", HOCKET_PARAMS, "serve", "--listen", ":0"}, 20s);
    CHECK(without.exit_code == 1);
    CHECK_THAT(without.err, Contains("HOCKET_SECRET"));
}
