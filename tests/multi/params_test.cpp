// hocket-params as people use it: servers in processes of their own, and a look at them.
#include <fcntl.h>
#include <fmt/format.h>
#include <hocket.h>
#include <signal.h>
#include <sys/wait.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/multi/process.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using hocket::test::eventually;
using hocket::test::Process;
using hocket::test::run;
using hocket::test::TemporaryFolder;
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

// For servers that must suspect nobody, not even a worker that the machine keeps waiting.
Words patiently(Words more) {
    more.insert(more.end(), {"--silence-ms", "20000", "--return-ms", "30000"});
    return more;
}

// In a child that fork() has made: the body never returns, and if it throws, as a failed REQUIRE does, the
// child ends here, and does not go on with the tests that follow.
template <typename Body>
[[noreturn]] void run_in_child(Body body) {
    try {
        body();
    } catch (...) {
    }
    _exit(1);
}

hkt_params* open_worker(const std::string& address, const char* rack = nullptr) {
    const hkt_params_tensor tensor = {"w", 100000, HKT_INT64};
    hkt_params_options options = HKT_PARAMS_OPTIONS_INIT;
    options.address = address.c_str();
    options.secret = "a secret";
    options.rack = rack;
    hkt_params* params = nullptr;
    const hkt_status status = hkt_params_open(&tensor, 1, nullptr, &options, &params);
    INFO(hkt_last_error());
    REQUIRE(status == HKT_SUCCESS);
    return params;
}

// A round of its only worker, after which each weight must be this.
void push_ones(hkt_params* params, std::int64_t sum) {
    std::vector<std::int64_t> values(100000, 1);
    const void* const gradient = values.data();
    void* const weights = values.data();
    CHECK(hkt_params_push(params, 0, 1, &gradient, nullptr) == HKT_SUCCESS);
    CHECK(hkt_params_clock(params, nullptr) == HKT_SUCCESS);
    CHECK(hkt_params_pull(params, 0, 1, &weights, 0, nullptr) == HKT_SUCCESS);
    CHECK(values == std::vector<std::int64_t>(values.size(), sum));
}

std::string shown_by(const std::string& address) {
    return run({HOCKET_PARAMS, "status", address}, 20s, secret).out;
}

}  // namespace

TEST_CASE("two servers take a worker, show it, and end when it has left") {
    Process first(serve(patiently({"--servers", "2", "--once"})), secret);
    const std::string address = address_of(first);
    const auto waiting = run({HOCKET_PARAMS, "status", address}, 20s, secret);
    CHECK(waiting.exit_code == 0);
    CHECK_THAT(waiting.out, Contains("1 of 2 servers have come, and no worker has come"));
    Process second(serve(patiently({"--join", address, "--once"})), secret);
    const std::string seconds = address_of(second);
    CHECK(eventually([&] {
        return shown_by(address) == "server 0 at " + address +
                                        ": the job has not begun: no worker has come\n" + "server 1 at " +
                                        seconds + ": the job has not begun: the first server (" + address +
                                        ") has not begun it; its status says why\n";
    }));

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
    CHECK(json[0].at("model_bytes") == 800000);
    for (const char* const what : {"bytes", "chunks"}) {
        const std::uint64_t a = json[0].at(what), b = json[1].at(what);
        CHECK(a > 0);
        CHECK(a + b == json[0].at(std::string("model_") + what));
    }

    hkt_params_close(params);
    for (Process* const server : {&first, &second}) {
        const auto finished = server->finish(20s);
        CHECK(finished.exit_code == 0);
        CHECK(finished.err == "");
    }
}

TEST_CASE("a server that cannot write its checkpoints says so in its status, and by its exit status") {
    const TemporaryFolder folder;
    const std::string there = folder.path() + "/there";
    std::filesystem::create_directory(there);
    Process server(serve({"--checkpoints", there, "--every", "1"}), secret);
    const std::string address = address_of(server);
    hkt_params* const params = open_worker(address);
    CHECK(hkt_params_checkpoint(params, nullptr) == HKT_SUCCESS);
    CHECK(shown_by(address).find("TROUBLE") == std::string::npos);
    std::filesystem::rename(there, there + "-gone");
    CHECK(hkt_params_checkpoint(params, nullptr) == HKT_ERROR_IO);
    CHECK_THAT(shown_by(address), Contains("TROUBLE: there is no new checkpoint: the checkpoint " + there));
    kill(server.pid(), SIGTERM);
    const auto result = server.finish(20s);
    CHECK(result.exit_code == 1);
    CHECK_THAT(result.err,
               Contains("hocket-params: server 0 has written no last checkpoint: the checkpoint " + there));
    hkt_params_close(params);
}

TEST_CASE("a job whose processes have all died goes back to whole rounds, or is not gone on with") {
    const TemporaryFolder folder;
    const std::string folders[] = {folder.path() + "/a", folder.path() + "/b"};
    for (const std::string& each : folders) std::filesystem::create_directory(each);
    const auto start = [&](int index, const std::string& first, Words more) {
        const Words fixed{HOCKET_PARAMS,   "serve",
                          "--checkpoints", folders[index],
                          "--every",       "1",
                          "--return-ms",   "2000",
                          "--listen",      index == 0 && first != "" ? first : "127.0.0.1:0"};
        more.insert(more.begin(), fixed.begin(), fixed.end());
        if (index == 1) more.insert(more.end(), {"--join", first});
        return std::make_unique<Process>(more, secret);
    };
    std::unique_ptr<Process> servers[2];
    servers[0] = start(0, "", {"--servers", "2"});
    const std::string address = address_of(*servers[0]);
    servers[1] = start(1, address, {});
    const pid_t worker = fork();
    if (worker == 0)
        run_in_child([&] {
            std::vector<std::int64_t> values(100000, 3);
            const void* gradient[] = {values.data()};
            hkt_params* const params = open_worker(address);
            for (;; std::this_thread::sleep_for(10ms))
                if (hkt_params_push(params, 0, 1, gradient, nullptr) || hkt_params_clock(params, nullptr))
                    _exit(1);
        });
    constexpr int most_rounds = 10000;  // in the time that this process may be kept waiting
    const auto has = [&](int index, int round) {
        return std::filesystem::exists(
            fmt::format("{}/server-{}.round-{}.checkpoint", folders[index], index, round));
    };
    // The rounds of which both have whole checkpoints, the last first.
    const auto common = [&] {
        std::vector<int> rounds;
        for (int round = most_rounds; round > 0; --round)
            if (has(0, round) && has(1, round)) rounds.push_back(round);
        return rounds;
    };
    REQUIRE(eventually([&] {
        const auto rounds = common();
        return rounds.size() >= 2 && rounds[0] > 8;
    }));
    // Between two rounds one server may have written and removed a checkpoint, and the other one not.
    kill(worker, SIGSTOP);
    REQUIRE(eventually([&] { return common().size() >= 2; }));
    kill(worker, SIGKILL);
    for (auto& server : servers) kill(server->pid(), SIGKILL);
    waitpid(worker, nullptr, 0);
    for (auto& server : servers) server->finish(20s);
    REQUIRE(common().size() >= 2);
    const int back = common()[1];
    for (int round = back + 1; round <= most_rounds; ++round)  // as if one had been behind
        std::filesystem::remove(fmt::format("{}/server-1.round-{}.checkpoint", folders[1], round));

    const auto restart = [&](const Words& how) {
        for (int index = 0; index < 2; ++index) {
            Words more{"--restore"};
            more.insert(more.end(), how.begin(), how.end());
            servers[index] = start(index, address, more);
            if (!servers[index]->wait_for_output("serving at ", 20s)) FAIL(servers[index]->finish(1s).err);
        }
    };
    const auto stop = [&] {
        for (auto& server : servers) kill(server->pid(), SIGKILL);
        for (auto& server : servers) server->finish(20s);
    };
    restart({});
    const hkt_params_tensor tensor = {"w", 100000, HKT_INT64};
    hkt_params_options options = HKT_PARAMS_OPTIONS_INIT;
    options.address = address.c_str();
    options.secret = "a secret";
    hkt_params* params = nullptr;
    CHECK(hkt_params_open(&tensor, 1, nullptr, &options, &params) == HKT_ERROR_MISMATCH);
    CHECK_THAT(hkt_last_error(), Contains("the servers go on from different rounds") &&

                                     Contains("server 1 (") &&
                                     Contains(fmt::format("--restore --round {}\n", back)));
    stop();
    restart({"--round", std::to_string(back)});
    // Several at once: some find that others take part in the rounds of one server already.
    constexpr int newcomers = 4;
    std::vector<std::string> outcomes(newcomers);
    std::vector<std::thread> threads;
    for (std::string& outcome : outcomes)
        threads.emplace_back([&] {
            hkt_params* own = nullptr;
            std::vector<std::int64_t> values(100000);
            void* weights[] = {values.data()};
            if (hkt_params_open(&tensor, 1, nullptr, &options, &own) ||
                hkt_params_pull(own, 0, 1, weights, 0, nullptr))
                outcome = hkt_last_error();
            else
                outcome = std::to_string(std::count(values.begin(), values.end(), 3 * back));
            hkt_params_close(own);
        });
    for (std::thread& thread : threads) thread.join();
    CHECK(outcomes == std::vector<std::string>(newcomers, "100000"));
    stop();
}

TEST_CASE("what a worker calls itself is shown as text") {
    Process server(serve({}), secret);
    const std::string address = address_of(server);
    hkt_params* const params = open_worker(address, "\x1b]0;x\x07\x1b[31mRED\nserver 9");
    const std::string shown = shown_by(address);
    CHECK_THAT(shown, Contains("?]0;x??[31mRED?server 9"));
    CHECK(shown.find_first_of("\x1b\x07") == std::string::npos);
    hkt_params_close(params);
    kill(server.pid(), SIGTERM);
    CHECK(server.finish(20s).exit_code == 0);
}

TEST_CASE("a server that finds no first one says so, once and when it is asked") {
    Process lonely(serve({"--join", "127.0.0.1:1"}), secret);
    const std::string address = address_of(lonely);
    CHECK(eventually([&] {
        return shown_by(address).find("there is no way to the first server (127.0.0.1:1)") !=
               std::string::npos;
    }));
    kill(lonely.pid(), SIGTERM);
    const auto finished = lonely.finish(20s);
    CHECK(finished.exit_code == 0);
    CHECK_THAT(finished.err,
               Contains("hocket-params: a server without a number: there is no way to the first "
                        "server; it tries again: 127.0.0.1:1: Connection refused"));
    CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
}

TEST_CASE("servers that are stopped say no more, and one that is killed is named") {
    Process first(serve({"--servers", "3"}), secret);
    const std::string address = address_of(first);
    std::vector<std::unique_ptr<Process>> others;
    for (int i = 0; i < 2; ++i) {
        others.push_back(std::make_unique<Process>(serve({"--join", address}), secret));
        address_of(*others.back());
        CHECK(eventually([&] {
            return shown_by(address).find(i == 0 ? "2 of 3 servers" : "server 2 at") != std::string::npos;
        }));
    }
    CHECK_THAT(shown_by(address), !Contains("answers"));  // a table without workers
    SECTION("in any order") {
        for (Process* const server : {others[1].get(), &first, others[0].get()}) {
            kill(server->pid(), SIGINT);
            const auto finished = server->finish(20s);
            CHECK(finished.exit_code == 0);
            CHECK(finished.err == "");
        }
    }
    SECTION("killed") {
        kill(others[0]->pid(), SIGKILL);
        others[0]->finish(20s);
        CHECK(eventually([&] { return shown_by(address).find("2 of 3 servers") != std::string::npos; }));
        kill(first.pid(), SIGTERM);
        CHECK_THAT(first.finish(20s).err,
                   Contains("hocket-params: server 0: the connection with server 1 ("));
    }
}

TEST_CASE("a server that is begun anew takes nobody's place") {
    Process first(serve({"--servers", "2"}), secret);
    const std::string address = address_of(first);
    Process second(serve({"--join", address}), secret);
    address_of(second);
    hkt_params* const old = open_worker(address);
    const auto more = run(serve({"--join", address}), 20s, secret);
    CHECK(more.exit_code == 1);
    CHECK_THAT(more.err, Contains("--restore") && !Contains("broke"));

    // Another first one, in a new job with a new second one, and a worker with the old one's number.
    kill(first.pid(), SIGKILL);
    first.finish(20s);
    Process anew(patiently({HOCKET_PARAMS, "serve", "--servers", "2", "--listen", address}), secret);
    address_of(anew);
    const auto refused = second.finish(20s);
    CHECK(refused.exit_code == 1);
    CHECK_THAT(refused.err, Contains("it goes on with another job"));
    Process other(serve(patiently({"--join", address})), secret);
    address_of(other);
    hkt_params* const params = open_worker(address);
    std::vector<std::int64_t> values(100000);
    void* const weights = values.data();
    CHECK(
        eventually([&] { return hkt_params_pull(old, 0, 1, &weights, 0, nullptr) == HKT_ERROR_PEER_LOST; }));
    CHECK_THAT(hkt_last_error(), Contains("this server was begun anew"));
    hkt_params_close(old);
    for (int round = 1; round <= 3; ++round) {
        values.assign(values.size(), 1);
        const void* const gradient = values.data();
        CHECK(hkt_params_push(params, 0, 1, &gradient, nullptr) == HKT_SUCCESS);
        CHECK(hkt_params_clock(params, nullptr) == HKT_SUCCESS);
        CHECK(hkt_params_pull(params, 0, 1, &weights, 0, nullptr) == HKT_SUCCESS);
        CHECK(values == std::vector<std::int64_t>(values.size(), round));
    }
    hkt_params_stats stats;
    CHECK(hkt_params_get_stats(params, &stats, sizeof stats) == HKT_SUCCESS);
    CHECK(stats.reconnections == 0);
    hkt_params_close(params);
}

TEST_CASE("a worker of a job whose servers are begun anew is not taken for another one with its number") {
    auto server = std::make_unique<Process>(serve({}), secret);
    const std::string address = address_of(*server);
    int joined[2];
    REQUIRE(pipe(joined) == 0);
    const pid_t old = fork();
    if (old == 0) {
        alarm(60);
        const hkt_params_tensor tensor = {"w", 100000, HKT_INT64};
        hkt_params_options options = HKT_PARAMS_OPTIONS_INIT;
        options.address = address.c_str();
        options.secret = "a secret";
        hkt_params* params = nullptr;
        std::vector<std::int64_t> values(100000);
        void* const weights = values.data();
        hkt_status status = hkt_params_open(&tensor, 1, nullptr, &options, &params);
        if (write(joined[1], "", 1) != 1) _exit(2);
        while (status == HKT_SUCCESS) status = hkt_params_pull(params, 0, 1, &weights, 0, nullptr);
        _exit(std::string(hkt_last_error()).find("begun anew") == std::string::npos);
    }
    char byte;
    REQUIRE(read(joined[0], &byte, 1) == 1);
    kill(old, SIGSTOP);  // so that it comes back when the next job has begun
    kill(server->pid(), SIGKILL);
    server->finish(20s);
    server = std::make_unique<Process>(patiently({HOCKET_PARAMS, "serve", "--listen", address}), secret);
    address_of(*server);
    hkt_params* const params = open_worker(address);
    kill(old, SIGCONT);
    int how = -1;
    std::int64_t round = 0;
    std::vector<std::int64_t> values(100000);
    const void* const gradient = values.data();
    void* const weights = values.data();
    CHECK(eventually([&] {
        values.assign(values.size(), 1);
        const bool is_right = hkt_params_push(params, 0, 1, &gradient, nullptr) == HKT_SUCCESS &&
                              hkt_params_clock(params, nullptr) == HKT_SUCCESS &&
                              hkt_params_pull(params, 0, 1, &weights, 0, nullptr) == HKT_SUCCESS &&
                              values == std::vector<std::int64_t>(values.size(), ++round);
        return !is_right || waitpid(old, &how, WNOHANG) == old;
    }));
    CHECK(how == 0);
    hkt_params_stats stats;
    CHECK(hkt_params_get_stats(params, &stats, sizeof stats) == HKT_SUCCESS);
    CHECK(stats.reconnections == 0);
    kill(old, SIGKILL);
    hkt_params_close(params);
    for (const int end : joined) close(end);
}

TEST_CASE("a worker that waits for its server says for what") {
    const TemporaryFolder folder;
    const std::string log = folder.path() + "/log";
    const int own = dup(STDERR_FILENO), file = open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const hkt_params_tensor tensor = {"w", 1, HKT_INT64};
    hkt_params_options options = HKT_PARAMS_OPTIONS_INIT;
    options.address = "127.0.0.1:1";
    options.secret = "a secret";
    options.timeout_ms = 6000;
    hkt_params* params = nullptr;
    dup2(file, STDERR_FILENO);
    const hkt_status status = hkt_params_open(&tensor, 1, nullptr, &options, &params);
    dup2(own, STDERR_FILENO);
    close(own);
    close(file);
    CHECK(status == HKT_ERROR_BOOTSTRAP);
    CHECK_THAT(hkt_last_error(), Contains("127.0.0.1:1: Connection refused; is one running there?"));
    std::ifstream written(log);
    const std::string text{std::istreambuf_iterator<char>(written), {}};
    CHECK_THAT(text, Contains("hocket-params: worker: there is no way to the parameter server 127.0.0.1:1: "
                              "Connection refused; it tries again for "));
    CHECK(std::count(text.begin(), text.end(), '\n') == 1);
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
    const auto round = [&](std::int64_t sum) { push_ones(params, sum); };
    round(1);
    round(2);  // which is in no checkpoint: there is one of the beginning
    CHECK(hocket::test::eventually([&] { return std::filesystem::exists(b + "/server-1.checkpoint"); }));
    kill(second->pid(), SIGKILL);
    CHECK(second->finish(20s).exit_code != 0);
    second = std::make_unique<Process>(serve({"--restore", "--checkpoints", b, "--join", address, "--once"}),
                                       secret);
    round(3);
    CHECK(hkt_params_checkpoint(params, nullptr) == HKT_SUCCESS);
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

TEST_CASE("a new worker hears whom a server that was replaced waits for") {
    const TemporaryFolder folder;
    const auto start = [&](const std::string& at, Words more) {
        const Words fixed{HOCKET_PARAMS, "serve", "--checkpoints", folder.path(), "--listen", at};
        more.insert(more.begin(), fixed.begin(), fixed.end());
        more.insert(more.end(), {"--return-ms", "60000"});
        return std::make_unique<Process>(more, secret);
    };
    auto server = start("127.0.0.1:0", {});
    const std::string address = address_of(*server);
    const pid_t worker = fork();
    if (worker == 0)
        run_in_child([&] {
            hkt_params* const params = open_worker(address);
            push_ones(params, 1);
            if (hkt_params_checkpoint(params, nullptr)) _exit(1);
            std::ofstream(folder.path() + "/ready").put('\n');
            for (;;) pause();
        });
    REQUIRE(eventually([&] { return std::filesystem::exists(folder.path() + "/ready"); }));
    kill(worker, SIGKILL);
    kill(server->pid(), SIGKILL);
    waitpid(worker, nullptr, 0);
    server->finish(20s);
    server = start(address, {"--restore"});
    REQUIRE(server->wait_for_output("serving at ", 20s));

    const hkt_params_tensor tensor = {"w", 100000, HKT_INT64};
    hkt_params_options options = HKT_PARAMS_OPTIONS_INIT;
    options.address = address.c_str();
    options.secret = "a secret";
    options.timeout_ms = 5000;
    hkt_params* params = nullptr;
    CHECK(hkt_params_open(&tensor, 1, nullptr, &options, &params) == HKT_ERROR_TIMEOUT);
    CHECK_THAT(hkt_last_error(), Contains("has not taken this worker in within 5 s: server 0 (" + address +
                                          ") was replaced, and before it takes in new workers it waits until "
                                          "worker 0 comes back, or return_ms is over"));
    kill(server->pid(), SIGTERM);
    server->finish(20s);
}

TEST_CASE("a damaged checkpoint is refused where an older one would lack rounds") {
    const TemporaryFolder folder;
    const auto start = [&](Words more) {
        const Words fixed{"--checkpoints", folder.path(), "--every", "1"};
        more.insert(more.begin(), fixed.begin(), fixed.end());
        return std::make_unique<Process>(serve(more), secret);
    };
    auto server = start({});
    hkt_params* params = open_worker(address_of(*server));
    for (int round = 1; round <= 3; ++round) push_ones(params, round);
    const std::string of_moment = folder.path() + "/server-0.checkpoint";
    const auto of_round = [&](int round) {
        return fmt::format("{}/server-0.round-{}.checkpoint", folder.path(), round);
    };
    REQUIRE(eventually([&] { return std::filesystem::exists(of_round(3)); }));
    CHECK(hkt_params_checkpoint(params, nullptr) == HKT_SUCCESS);
    hkt_params_close(params);
    kill(server->pid(), SIGTERM);
    server->finish(20s);

    const auto damage = [](const std::string& file) {
        std::fstream(file, std::ios::in | std::ios::out).seekp(4).write("damaged", 7);
    };
    // As if nothing of a moment had been written since, where another one is damaged.
    const int which = GENERATE(0, 2, 3);
    const std::string damaged = which == 0 ? of_moment : of_round(which);
    CAPTURE(damaged);
    if (damaged != of_moment) std::filesystem::remove(of_moment);
    damage(damaged);
    if (damaged == of_round(2)) {  // which nothing is taken from
        server = start({"--restore", "--return-ms", "2000"});
        params = open_worker(address_of(*server));
        push_ones(params, 4);
        hkt_params_close(params);
        kill(server->pid(), SIGTERM);
        server->finish(20s);
        return;
    }
    const auto refused = start({"--restore"})->finish(20s);
    CHECK(refused.exit_code != 0);
    CHECK_THAT(refused.err, Contains(damaged + " cannot be continued from: ") &&
                                Contains("An older checkpoint would lack rounds") && Contains("--round N") &&
                                Contains("has whole checkpoints of 1, 2"));
    CHECK(std::filesystem::exists(damaged));

    // The checkpoints that the job goes back from still exist, under other names, each time.
    for (int times = 1; times <= 2; ++times) {
        server = start({"--restore", "--round", "2", "--return-ms", "2000"});
        params = open_worker(address_of(*server));
        push_ones(params, 3);  // the third round, once more
        REQUIRE(eventually([&] { return std::filesystem::exists(of_round(3)); }));
        CHECK(hkt_params_checkpoint(params, nullptr) == HKT_SUCCESS);
        hkt_params_close(params);
        kill(server->pid(), SIGTERM);
        server->finish(20s);
        CHECK(std::filesystem::exists(damaged + ".old"));
        CHECK(std::filesystem::exists(of_round(3) + ".old"));
        CHECK(std::filesystem::exists(of_round(3) + ".old.2") == (times == 2));
    }
    std::ifstream kept(damaged + ".old");
    const std::string text{std::istreambuf_iterator<char>(kept), {}};
    CHECK(text.substr(4, 7) == "damaged");
}

TEST_CASE("a server that stood still ends where another one has taken its place") {
    const bool first_is_replaced = GENERATE(false, true);
    const hocket::test::TemporaryFolder folder;
    const std::string a = folder.path() + "/a", b = folder.path() + "/b";
    for (const std::string& each : {a, b}) std::filesystem::create_directory(each);
    auto first = std::make_unique<Process>(serve({"--servers", "2", "--checkpoints", a}), secret);
    const std::string address = address_of(*first);
    Process second(serve({"--join", address, "--checkpoints", b}), secret);
    address_of(second);
    hkt_params* const params = open_worker(address);
    const auto round = [&](std::int64_t sum) { push_ones(params, sum); };
    round(1);
    REQUIRE(eventually([&] {  // those of the job's beginning
        return std::filesystem::exists(a + "/server-0.checkpoint") &&
               std::filesystem::exists(b + "/server-1.checkpoint");
    }));
    kill(second.pid(), SIGSTOP);
    Process replaced(serve({"--restore", "--checkpoints", b, "--join", address}), secret);
    address_of(replaced);
    round(2);
    if (first_is_replaced) {  // it may find the old one first
        kill(first->pid(), SIGKILL);
        first->finish(20s);
        first = std::make_unique<Process>(
            Words{HOCKET_PARAMS, "serve", "--restore", "--checkpoints", a, "--listen", address}, secret);
        address_of(*first);
        round(3);
    }
    kill(second.pid(), SIGCONT);
    const auto ended = second.finish(20s);
    CHECK(ended.exit_code == 1);
    CHECK_THAT(ended.err, Contains("another process has taken its place"));
    round(first_is_replaced ? 4 : 3);
    hkt_params_close(params);
}

TEST_CASE("an option that a server does not take is named as on the command line") {
    const auto refused = [](Words options, const std::string& why) {
        options.insert(options.begin(), HOCKET_PARAMS);
        const auto result = run(options, 20s, secret);
        CAPTURE(options, result.err);
        CHECK(result.exit_code == 2);
        CHECK_THAT(result.err, Contains(why) && !Contains("hkt_"));
        CHECK(result.err.size() < 250);
    };
    for (const char* const address : {"7000", "here:", "here:x", "here:65536", "::1:7000"}) {
        refused({"serve", "--listen", address}, std::string("--listen: '") + address + "' is no address");
        refused({"serve", "--join", address}, std::string("--join: '") + address + "' is no address");
        refused({"status", address}, std::string("ADDRESS: '") + address + "' is no address");
    }
    refused({"serve", "--join", ":7000"}, "--join: ':7000' has no host");
    refused({"serve", "--silence-ms", "199"}, "--silence-ms: Value 199 not in range 200");
    refused({"serve", "--silence-ms", "3000", "--return-ms", "2000"},
            "--return-ms: 2000 is less than --silence-ms, 3000");
    refused({"serve", "--silence-ms", "20000"}, "--return-ms: 10000 is less than --silence-ms, 20000");
    for (const char* const rounds : {"0", "4294967296"})
        refused({"serve", "--checkpoints", "/tmp", "--every", rounds},
                std::string("--every: Value ") + rounds + " not in range 1 to 4294967295");
    Process least(serve({"--silence-ms", "200", "--return-ms", "200"}), secret);
    address_of(least);
    kill(least.pid(), SIGTERM);
    CHECK(least.finish(20s).exit_code == 0);
}

TEST_CASE("the help of hocket-params has its examples once") {
    const auto help = [](Words command) {
        command.insert(command.begin(), HOCKET_PARAMS);
        command.push_back("--help");
        const auto result = run(command, 20s);
        CHECK(result.exit_code == 0);
        return result.out;
    };
    CHECK_THAT(help({}), Contains("Examples:"));
    CHECK_THAT(help({"serve"}),
               Contains("--checkpoints") && Contains("it must exist") && !Contains("Examples:"));
    CHECK_THAT(help({"status"}), Contains("ADDRESS") && !Contains("Examples:"));
}

TEST_CASE("a job that is stopped goes on with all of its rounds, and without whom had left") {
    const hocket::test::TemporaryFolder folder;
    const auto serve_in = [&](const Words& more) {
        Words words = serve({"--checkpoints", folder.path(), "--every", "1000"});
        words.insert(words.end(), more.begin(), more.end());
        return std::make_unique<Process>(words, secret);
    };
    const auto train = [](const std::string& address, std::int64_t sum) {
        hkt_params* const params = open_worker(address);
        std::vector<std::int64_t> values(100000, 1);
        const void* const gradient = values.data();
        void* const weights = values.data();
        CHECK(hkt_params_push(params, 0, 1, &gradient, nullptr) == HKT_SUCCESS);
        CHECK(hkt_params_clock(params, nullptr) == HKT_SUCCESS);
        CHECK(hkt_params_pull(params, 0, 1, &weights, 0, nullptr) == HKT_SUCCESS);
        CHECK(values == std::vector<std::int64_t>(values.size(), sum));
        hkt_params_close(params);
    };
    auto server = serve_in({"--once"});
    train(address_of(*server), 1);
    CHECK(server->finish(20s).exit_code == 0);

    const auto careless = serve_in({})->finish(20s);  // it would write over the model
    CHECK(careless.exit_code == 1);
    CHECK_THAT(careless.err, Contains("server-0.checkpoint") && Contains("--restore"));

    server = serve_in({"--restore"});
    const std::string address = address_of(*server);
    CHECK_THAT(run({HOCKET_PARAMS, "status", address}, 20s, secret).out, Contains("round 1,"));
    train(address, 2);
    kill(server->pid(), SIGTERM);
    CHECK(server->finish(20s).exit_code == 0);
    server = serve_in({"--restore"});
    CHECK_THAT(run({HOCKET_PARAMS, "status", address_of(*server)}, 20s, secret).out, Contains("0 workers"));
    train(address_of(*server), 3);
}

TEST_CASE("a server ends with a signal, and says what is wrong with its options") {
    Process server(serve({}), secret);
    const std::string address = address_of(server);
    const auto stranger = run({HOCKET_PARAMS, "status", address}, 20s, {{"HOCKET_SECRET", "another"}});
    CHECK(stranger.exit_code == 1);
    CHECK_THAT(stranger.err,
               Contains("the parameter server " + address + " refuses this process: wrong secret"));
    kill(server.pid(), SIGTERM);
    CHECK(server.finish(20s).exit_code == 0);
    const auto gone = run({HOCKET_PARAMS, "status", address, "--timeout-ms", "500"}, 20s, secret);
    CHECK(gone.exit_code == 1);
    CHECK_THAT(gone.err, Contains(address) && Contains("; is one running there?\n"));

    CHECK(run(serve({"--restore"}), 20s, secret).exit_code == 2);
    const auto nowhere = run(serve({"--checkpoints", "/nowhere"}), 20s, secret);
    CHECK(nowhere.exit_code == 1);
    CHECK_THAT(nowhere.err, Contains("/nowhere") && Contains("make it first"));
    CHECK(run({HOCKET_PARAMS}, 20s).exit_code == 2);
    const auto without = run({"env", "-u", "HOCKET_SECRET", HOCKET_PARAMS, "serve", "--listen", ":0"}, 20s);
    CHECK(without.exit_code == 1);
    CHECK_THAT(without.err, Contains("HOCKET_SECRET"));
}
