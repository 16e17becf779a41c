// hocket-run with real programs: environment, output, exit codes, signals, deadlines, orphans.
#include <signal.h>
#include <unistd.h>

#include <set>
#include <sstream>

#include "tests/multi/process.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using hocket::test::Finished;
using hocket::test::is_running;
using hocket::test::lines_with_prefix;
using hocket::test::Process;

namespace {

// hocket-run OPTIONS... sh -c SCRIPT
std::vector<std::string> job(std::vector<std::string> options, const std::string& script) {
    std::vector<std::string> command{HOCKET_RUN};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {"sh", "-c", script});
    return command;
}

Finished run_job(const std::vector<std::string>& options, const std::string& script,
                 const Process::Environment& environment = {}) {
    Finished result = hocket::test::run(job(options, script), 20s, environment);
    INFO(result.out << result.err);
    REQUIRE(result.in_time);
    return result;
}

// The processes named by numbers in the lines.
std::vector<pid_t> numbers_in(const std::vector<std::string>& lines) {
    std::vector<pid_t> pids;
    for (const auto& line : lines) {
        std::istringstream words(line);
        for (pid_t pid; words >> pid;) pids.push_back(pid);
    }
    return pids;
}

bool all_gone(const std::vector<pid_t>& pids, std::chrono::milliseconds deadline) {
    return hocket::test::eventually([&] { return std::none_of(pids.begin(), pids.end(), is_running); },
                                    deadline);
}

}  // namespace

TEST_CASE("each rank gets its environment") {
    const auto result = run_job({"-n", "3"},
                                "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR; "
                                "echo $MASTER_PORT $HOCKET_SECRET >&2");
    CHECK(result.exit_code == 0);
    std::set<std::string> shared;
    for (int rank = 0; rank < 3; ++rank) {
        const std::string r = std::to_string(rank), prefix = "[" + r + "] ";
        CHECK(lines_with_prefix(result.out, prefix) ==
              std::vector<std::string>{r + " 3 " + r + " 3 127.0.0.1"});
        for (const auto& line : lines_with_prefix(result.err, prefix)) shared.insert(line);
    }
    REQUIRE(shared.size() == 1);  // the same port and secret for all
    const std::string port_and_secret = *shared.begin();
    CHECK(port_and_secret.size() - port_and_secret.find(' ') - 1 >= 32);
    const auto again = run_job({"-n", "1"}, "echo $HOCKET_SECRET");
    CHECK(port_and_secret.find(again.out.substr(0, 32)) == std::string::npos);  // fresh each time
}

TEST_CASE("libfabric's tcp gets larger buffers where it is asked for, unless the user has set them") {
    const std::string script = "echo $FI_OFI_RXM_BUFFER_SIZE/$FI_OFI_RXM_MSG_RX_SIZE";
    unsetenv("FI_OFI_RXM_MSG_RX_SIZE");
    CHECK(run_job({"-n", "1"}, script).out == "/\n");
    for (const char* variable : {"HOCKET_PROVIDER", "HOCKET_PROVIDER_FOR_ALL"}) {
        setenv(variable, "ofi+tcp", 1);
        CHECK(run_job({"-n", "1"}, script).out == "69632/64\n");
        setenv("FI_OFI_RXM_MSG_RX_SIZE", "128", 1);
        CHECK(run_job({"-n", "1"}, script).out == "69632/128\n");
        unsetenv("FI_OFI_RXM_MSG_RX_SIZE");
        setenv(variable, "net", 1);
        CHECK(run_job({"-n", "1"}, script).out == "/\n");
        unsetenv(variable);
    }
}

TEST_CASE("a secret that the user set is kept") {
    const auto result = run_job({"-n", "2"}, "echo $HOCKET_SECRET", {{"HOCKET_SECRET", "from-the-user"}});
    CHECK(lines_with_prefix(result.out, "[1] ") == std::vector<std::string>{"from-the-user"});
}

TEST_CASE("rank 0 alone inherits the listening socket") {
    const auto result = run_job({"-n", "2"},
                                "test -z \"$HOCKET_LISTEN_FD\" || readlink /proc/$$/fd/$HOCKET_LISTEN_FD; "
                                "ls -l /proc/$$/fd | grep -c socket:");
    const auto first = lines_with_prefix(result.out, "[0] "), second = lines_with_prefix(result.out, "[1] ");
    REQUIRE(first.size() == 2);
    CHECK(first[0].rfind("socket:", 0) == 0);
    CHECK(first[1] == "1");
    CHECK(second == std::vector<std::string>{"0"});
    // The process that guards the ranks has it no more than the others.
    const auto guard = run_job({"-n", "1"},
                               "for i in $(seq 100); do for p in /proc/[0-9]*; do read -r name <$p/comm && [ "
                               "\"$name\" = hocket-guard ] && "
                               "[ $(awk '/^PPid/{print $2}' $p/status) = $PPID ] && { ls -l $p/fd | grep -c "
                               "socket:; exit 0; }; done; sleep 0.1; done 2>/dev/null");
    CHECK(guard.out == "0\n");
}

TEST_CASE("rank 0 alone reads the standard input") {
    const auto result = hocket::test::run({"sh", "-c", "echo hello | \"$0\" -n 3 cat", HOCKET_RUN}, 30s);
    CHECK(result.exit_code == 0);
    CHECK(result.out == "[0] hello\n");
}

TEST_CASE("lines stay whole, streams apart, and a last line without an end is printed") {
    const auto result = run_job({"-n", "3"},
                                "i=0; while [ $i -lt 200 ]; do printf 'left'; printf '%s\\n' ' right'; "
                                "i=$((i+1)); done; echo problem >&2; printf end");
    for (const char* prefix : {"[0] ", "[1] ", "[2] "}) {
        auto lines = lines_with_prefix(result.out, prefix);
        REQUIRE(lines.size() == 201);
        CHECK(lines.back() == "end");
        lines.pop_back();
        CHECK(std::set<std::string>(lines.begin(), lines.end()) == std::set<std::string>{"left right"});
        CHECK(lines_with_prefix(result.err, prefix) == std::vector<std::string>{"problem"});
    }
    CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 603);
}

TEST_CASE("of a line redrawn with carriage returns the last version is printed") {
    const auto result = run_job({"-n", "2"},
                                "printf '10 %%\\r'; sleep 0.05; printf '100 %%\\r'; sleep 0.05; "
                                "printf '\\rdone\\nnext\\r\\n'");
    CHECK(lines_with_prefix(result.out, "[1] ") == std::vector<std::string>{"done", "next"});
}

TEST_CASE("output passes through untouched for one rank and with --no-prefix") {
    CHECK(run_job({"-n", "1"}, "printf 'a\\rb'").out == "a\rb");
    CHECK(run_job({"-n", "2", "--no-prefix"}, "printf x").out == "xx");
    CHECK(run_job({"-n", "1", "--tag-output"}, "echo x").out == "[0] x\n");
}

TEST_CASE("options after the program are the program's") {
    const auto result = hocket::test::run({HOCKET_RUN, "-n", "1", "echo", "-n", "5", "--timeout"}, 20s);
    CHECK(result.out == "5 --timeout");
}

TEST_CASE("mistakes on the command line are refused") {
    CHECK(hocket::test::run({HOCKET_RUN, "-n", "2"}, 20s).exit_code == 2);
    CHECK(hocket::test::run({HOCKET_RUN, "-n", "2", "--nonsense", "true"}, 20s).exit_code == 2);
    CHECK(hocket::test::run({HOCKET_RUN, "-n", "0", "true"}, 20s).exit_code == 2);
    const auto missing = hocket::test::run({HOCKET_RUN, "-n", "2", "/no/such/program"}, 20s);
    CHECK(missing.exit_code == 127);
    CHECK(missing.err.find("/no/such/program") != std::string::npos);
}

TEST_CASE("the first failure's code is the job's, and the others are ended after the grace") {
    auto result = run_job({"-n", "4", "--grace", "0.3"}, "if [ $RANK = 2 ]; then exit 7; fi; sleep 60");
    CHECK(result.exit_code == 7);
    CHECK(result.seconds < 50);  // not the ranks' 60
    CHECK(result.err.find("rank 2 exited with code 7") != std::string::npos);
    result = run_job({"-n", "3", "--grace", "0.3"}, "if [ $RANK = 1 ]; then kill -SEGV $$; fi; sleep 60");
    CHECK(result.exit_code == 128 + SIGSEGV);
    CHECK(result.err.find("rank 1 killed by signal 11") != std::string::npos);
}

TEST_CASE("ranks that hocket-run ends are not reported as killed by somebody") {
    auto result = run_job({"-n", "4", "--grace", "0.3"},
                          "[ $RANK != 2 ] || exit 7; [ $RANK != 1 ] || trap '' TERM; sleep 4; sleep 60");
    CHECK(result.exit_code == 7);
    CHECK(lines_with_prefix(result.err, "hocket-run: ") ==
          std::vector<std::string>{"rank 2 exited with code 7", "then rank 0 1 3 ended by hocket-run"});
    result = run_job({"-n", "2", "--timeout", "0.3"}, "sleep 60");
    CHECK(lines_with_prefix(result.err, "hocket-run: ").back() == "rank 0 1 ended by hocket-run");
    result = run_job({"-n", "2", "--grace", "0.3"}, "[ $RANK = 0 ] || kill -KILL $$; sleep 60");
    CHECK(result.exit_code == 128 + SIGKILL);
    CHECK(lines_with_prefix(result.err, "hocket-run: ") ==
          std::vector<std::string>{"rank 1 killed by signal 9 (Killed)", "then rank 0 ended by hocket-run"});
    result = run_job({"-n", "7", "--grace", "0.3"}, "[ $RANK != 2 ] || exit 7; sleep 60");
    CHECK(lines_with_prefix(result.err, "hocket-run: ") ==
          std::vector<std::string>{"rank 2 exited with code 7", "then rank 0 1 3 to 6 ended by hocket-run"});
}

TEST_CASE("survivors may finish their words within the grace") {
    const auto result = run_job({"-n", "2", "--grace", "40"},
                                "if [ $RANK = 0 ]; then exit 3; fi; sleep 0.4; echo I saw it; exit 9");
    CHECK(result.exit_code == 3);
    CHECK(result.seconds < 35);  // the grace is no wait
    CHECK(lines_with_prefix(result.out, "[1] ") == std::vector<std::string>{"I saw it"});
}

TEST_CASE("a rank that ignores SIGTERM is killed") {
    const auto result =
        run_job({"-n", "2", "--grace", "0.1"},
                "if [ $RANK = 0 ]; then sleep 0.2; exit 3; fi; trap '' TERM; while :; do sleep 0.1; done");
    CHECK(result.exit_code == 3);
}

TEST_CASE("a timeout of more seconds than a clock counts is none") {
    const auto result = run_job({"-n", "1", "--timeout", "1e15", "--grace", "1e15"}, "echo done");
    CHECK(result.exit_code == 0);
    CHECK(result.out == "done\n");
}

TEST_CASE("the timeout ends the job with 124") {
    const auto result = run_job({"-n", "3", "--timeout", "0.5"}, "sleep 60");
    CHECK(result.exit_code == 124);
    CHECK(result.seconds < 50);  // not the ranks' 60
    CHECK(result.err.find("timeout") != std::string::npos);
}

TEST_CASE("signals are passed on, and a rank that handles one decides its end") {
    for (const auto& [name, number] : {std::pair{"INT", SIGINT}, {"TERM", SIGTERM}, {"HUP", SIGHUP}}) {
        CAPTURE(name);
        Process process(job({"-n", "2"}, std::string("trap 'echo got it; exit 0' ") + name +
                                             "; echo ready; while :; do sleep 0.05; done"));
        REQUIRE(process.wait_for_output("[0] ready", 10s));
        REQUIRE(process.wait_for_output("[1] ready", 10s));
        kill(process.pid(), number);
        const Finished result = process.finish(10s);
        CHECK(result.in_time);
        CHECK(result.exit_code == 0);
        CHECK(result.out.find("[0] got it") != std::string::npos);
        CHECK(result.out.find("[1] got it") != std::string::npos);
    }
}

TEST_CASE("signals that it was started to ignore stay ignored, and none keeps it from seeing ranks end") {
    // As nohup, and shells with background jobs, start it.
    const auto ignoring = [](const std::string& signals, std::vector<std::string> arguments,
                             const std::string& script) {
        std::vector<std::string> command = job(std::move(arguments), script);
        command.insert(command.begin(), {"env", "--ignore-signal=" + signals});
        return command;
    };
    Process process(ignoring("HUP,TERM", {"-n", "2"}, "echo ready; sleep 2; echo done"));
    REQUIRE(process.wait_for_output("[0] ready", 10s));
    for (int i = 0; i < 6; ++i) {
        kill(process.pid(), i % 2 == 0 ? SIGHUP : SIGTERM);
        usleep(50'000);
    }
    const Finished result = process.finish(20s);
    CHECK(result.exit_code == 0);
    CHECK(result.out.find("[1] done") != std::string::npos);
    CHECK(result.err == "");
    const Finished failed = hocket::test::run(ignoring("CHLD", {"-n", "2"}, "exit 3"), 20s);
    CHECK(failed.in_time);
    CHECK(failed.exit_code == 3);
}

TEST_CASE("what ranks have written before their end is printed, also if the reader is slow") {
    // 40 KiB lie in the pipe when the rank ends.
    const std::string last = "head -c 40000 /dev/zero | tr '\\0' x; echo; echo end";
    for (int i = 0; i < 5; ++i) {
        const auto result = run_job({"-n", "2", "--grace", "0"}, last);
        CHECK(result.exit_code == 0);
        CHECK(lines_with_prefix(result.out, "[0] ").size() == 2);
        CHECK(lines_with_prefix(result.out, "[1] ").size() == 2);
    }
    const std::string much = "head -c 2000000 /dev/zero | tr '\\0' x | fold -w 1000; ";
    const auto slow = hocket::test::run(
        {"sh", "-c", "\"$0\" -n 2 --grace 0.1 sh -c \"$1\" | { sleep 2; cat; }", HOCKET_RUN, much + last},
        60s);
    CHECK(slow.exit_code == 0);
    for (const char* rank : {"[0] ", "[1] "}) CHECK(lines_with_prefix(slow.out, rank).size() == 2001);
}

TEST_CASE("a second signal kills") {
    Process process(job({"-n", "2"}, "trap 'echo got it' INT; echo ready; while :; do sleep 0.05; done"));
    REQUIRE(process.wait_for_output("[0] ready", 10s));
    REQUIRE(process.wait_for_output("[1] ready", 10s));
    kill(process.pid(), SIGINT);
    // Two that come before hocket-run has taken the first one are one.
    REQUIRE(process.wait_for_output("[0] got it", 10s));
    REQUIRE(process.wait_for_output("[1] got it", 10s));
    usleep(200'000);
    REQUIRE(is_running(process.pid()));
    kill(process.pid(), SIGINT);
    const Finished result = process.finish(10s);
    CHECK(result.in_time);
    CHECK(result.exit_code == 128 + SIGINT);
}

TEST_CASE("nothing outlives hocket-run, even when it is killed") {
    // Each rank starts a process of its own; both numbers are printed, in a line that comes as a whole.
    const std::string script = "sleep 300 & echo $! $$; ";
    auto pids_of = [](const std::string& text) {
        auto pids = numbers_in(lines_with_prefix(text, "[0] "));
        for (pid_t pid : numbers_in(lines_with_prefix(text, "[1] "))) pids.push_back(pid);
        return pids;
    };
    SECTION("killed with SIGKILL") {
        Process process(job({"-n", "2"}, script + "wait; sleep 300"));
        REQUIRE(process.wait_for_output("[0] ", 10s));
        REQUIRE(process.wait_for_output("[1] ", 10s));
        kill(process.pid(), SIGKILL);
        const Finished result = process.finish(5s);
        CHECK(result.in_time);
        const auto pids = pids_of(result.out);
        REQUIRE(pids.size() == 4);
        CHECK(all_gone(pids, 20s));
    }
    SECTION("after a failure") {
        const auto result = run_job({"-n", "2", "--grace", "5"}, script + "exit 5");
        CHECK(result.exit_code == 5);
        const auto pids = pids_of(result.out);
        REQUIRE(pids.size() == 4);
        CHECK(all_gone(pids, 20s));
    }
}

TEST_CASE("output that cannot be written ends the job, with a reason") {
    const std::string ranks = " -n 2 sh -c 'echo $$ >&2; while :; do echo y; sleep 0.01; done'";
    const auto run = [&](const std::string& before, const std::string& after) {
        auto result = hocket::test::run({"sh", "-c", before + HOCKET_RUN + ranks + after}, 20s);
        INFO(result.out << result.err);
        CHECK(result.in_time);
        const auto pids = numbers_in(lines_with_prefix(result.err, "[0] "));
        CHECK(all_gone(pids, 20s));
        return result;
    };
    for (const char* stdout_is : {" >/dev/full", " >&-"}) {
        const auto result = run("exec ", stdout_is);
        CAPTURE(stdout_is, result.err);
        CHECK(result.exit_code == 125);
        CHECK(result.err.find("hocket-run: the output cannot be written (stdout): ") != std::string::npos);
    }
    CHECK(run("exec ", " >&- 2>&-").exit_code == 125);
    CHECK(run("exec ", " >/dev/full 2>&1").exit_code == 125);

    const auto result = run("{ ", "; echo code $? >&2; } | head -1");
    CHECK(result.err.find("hocket-run: the output cannot be written (stdout): Broken pipe") !=
          std::string::npos);
    CHECK(result.err.find("code 125") != std::string::npos);
}

TEST_CASE("a job goes on without stderr") {
    for (const char* stderr_is : {" 2>/dev/full", " 2>&-"}) {
        const auto result = hocket::test::run(
            {"sh", "-c",
             std::string("exec ") + HOCKET_RUN +
                 " -n 2 --grace 20 sh -c 'echo x >&2; sleep 0.1; echo done; exit 3'" + stderr_is},
            20s);
        CAPTURE(stderr_is, result.out);
        CHECK(result.exit_code == 3);
        CHECK(lines_with_prefix(result.out, "[1] ") == std::vector<std::string>{"done"});
    }
}
