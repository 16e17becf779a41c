// Why a job is slow or stuck: hocket-run --report, and the recordings behind it, with real ranks.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/multi/process.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using Catch::Contains;
using hocket::test::eventually;
using hocket::test::Finished;
using hocket::test::lines_with_prefix;
using hocket::test::Process;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

struct Folder : hocket::test::TemporaryFolder {
    std::vector<Json> recordings() const {
        std::vector<Json> all;
        for (const auto& entry : fs::directory_iterator(path()))
            if (entry.path().extension() == ".json") {
                std::ifstream file(entry.path());
                Json one = Json::parse(file, nullptr, false);
                if (one.is_object()) all.push_back(std::move(one));
            }
        return all;
    }
};

std::vector<std::string> job(std::vector<std::string> options, const std::string& mode) {
    std::vector<std::string> command{HOCKET_RUN, "-n", "4"};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {HOCKET_STUCK_RANKS, mode});
    return command;
}

// The messages of hocket-run itself.
std::string report_of(const Finished& result) {
    std::string report;
    for (const auto& line : lines_with_prefix(result.err, "hocket-run: ")) report += line + "\n";
    return report;
}

void wait_until_running(Process& process) {
    for (int rank = 0; rank < 4; ++rank)
        REQUIRE(process.wait_for_output("[" + std::to_string(rank) + "] running as ", 40s));
}

pid_t pid_of(const Process& process, int rank) {
    return std::stoi(process.output_after("[" + std::to_string(rank) + "] running as "));
}

// Runs ranks of which one ends, which it does once all run.
Finished run_until_one_ends(const std::vector<std::string>& options, const std::string& mode, int rank,
                            const Process::Environment& environment = {}) {
    Process process(job(options, mode), environment);
    wait_until_running(process);
    kill(pid_of(process, rank), SIGUSR2);
    return process.finish(60s);
}

// Asks until this many ranks are in an operation. Earlier answers show ranks that have not reached it.
void ask_until(const Folder& folder, const std::function<void()>& ask, std::size_t ranks) {
    REQUIRE(eventually(
        [&] {
            ask();
            std::size_t waiting = 0;
            for (const Json& one : folder.recordings())
                for (const char* kind : {"collectives", "messages"})
                    for (const Json& operation : one.at(kind)) waiting += operation.contains("at");
            return waiting >= ranks;
        },
        30s));
}

// Asks hocket-run by SIGUSR1 until its reports have had all the texts; the job goes on meanwhile.
void check_reports(const std::string& mode, const std::vector<std::string>& texts,
                   const Process::Environment& environment = {}) {
    std::vector<std::string> command{"sh", "-c", "exec \"$0\" \"$@\" 2>&1"};
    for (const std::string& word : job({"--report"}, mode)) command.push_back(word);
    Process process(command, environment);
    wait_until_running(process);
    for (const std::string& text : texts) {
        const bool is_there = eventually(
            [&] {
                kill(process.pid(), SIGUSR1);
                return process.wait_for_output(text, 1s);
            },
            20s);
        INFO(text << " is not in " << process.output_after("report of"));
        CHECK(is_there);
    }
    for (int rank = 0; rank < 4; ++rank) CHECK(hocket::test::is_running(pid_of(process, rank)));
    kill(process.pid(), SIGTERM);
    CHECK(process.finish(30s).in_time);
}

}  // namespace

TEST_CASE("a rank that is late: the report names it, and where the others wait; the job goes on") {
    const std::string provider = GENERATE("", "tcp");
    CAPTURE(provider);
    std::vector<std::string> texts{"so ranks 0-1, 3 wait in the end for rank 2",
                                   "rank 2 HAS NOT BEGUN it; it ended all_reduce #2",
                                   "all_reduce #3 (ring on 4",
                                   "float32 sum, 5000 elements)",
                                   "rank 0, since ",
                                   "rank 1, since ",
                                   "rank 3, since "};
    if (provider == "tcp") texts.emplace_back("schedules/ring.sched:");
    check_reports("late", texts, {{"HOCKET_PROVIDER_FOR_ALL", provider}, {"HOCKET_SCHEDULE", "ring"}});
}

TEST_CASE("after the timeout there is a report, too") {
    const Finished result = hocket::test::run(job({"--report", "--timeout", "12"}, "late"), 90s);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 124);
    CHECK_THAT(report_of(result), Contains("rank 2 HAS NOT BEGUN it"));
    CHECK_THAT(report_of(result), !Contains("the recordings are in"));  // hocket-run's own folder is gone
}

TEST_CASE("a rank that hangs while another fails has its place in the report") {
    Folder folder;
    const Finished result = run_until_one_ends({"--report", "--grace", "6"}, "quits", 1,
                                               {{"HOCKET_FLIGHT_RECORDER", folder.path()}});
    const std::string report = report_of(result);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 5);
    CHECK_THAT(report, Contains("rank 1 exited with code 5"));
    CHECK_THAT(report, Contains("rank 2 HAS NOT BEGUN it"));
    CHECK_THAT(report, Contains("the recordings are in " + folder.path()));
    CHECK(folder.recordings().size() == 4);
}

TEST_CASE("a rank that others lost is the first failure, though its process ends after them") {
    const Finished result = run_until_one_ends({"--report", "--grace", "30"}, "lingers", 1);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 5);
    CHECK_THAT(report_of(result), Contains("rank 1 was lost"));
    CHECK_THAT(report_of(result),
               Contains("rank 1 exited with code 5\nthen rank 0 2 3 exited with code 3\n"));
}

TEST_CASE("ranks that start different operations: the report has both") {
    const Finished result = hocket::test::run(job({"--report", "--grace", "20"}, "mismatch"), 60s);
    const std::string report = report_of(result);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 3);
    CHECK_THAT(report, Contains("the ranks have started different operations as #3:"));
    CHECK_THAT(report, Contains("ranks 0-1, 3: all_reduce #3"));
    CHECK_THAT(report, Contains("16 elements)"));
    CHECK_THAT(report, Contains("rank 2: all_reduce #3"));
    CHECK_THAT(report, Contains("17 elements)"));
}

TEST_CASE("a rank that is killed: the report names it, and what the others were in") {
    const Finished result = run_until_one_ends({"--report", "--grace", "10"}, "ends", 2);
    const std::string report = report_of(result);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 128 + SIGKILL);
    CHECK_THAT(report, Contains("failed on ranks 0-1, 3: rank 2 was lost"));
    CHECK_THAT(report, Contains("rank 2 killed by signal 9"));
    CHECK_THAT(report, Contains("since "));
    CHECK_THAT(report, Contains("all_reduce #3"));
}

TEST_CASE("a message that nobody sends is in the report") {
    check_reports("message", {"receive of 20000 bytes from rank 2, tag 7: rank 2 has not sent it",
                              "barrier #3 (4 ranks)", "so ranks 0-1, 3 wait in the end for rank 2"});
}

TEST_CASE("two communicators whose ranks wait for each other: the report has the circle") {
    check_reports(
        "group", {"communicator of 2 ranks (2m", "in the job 2, 0 in this order",
                  "rank 0 HAS NOT BEGUN it; it is in all_reduce #0 (direct on 2m",
                  "rank 0 HAS NOT BEGUN it; it is in barrier #4 (4 ranks) of the communicator of ranks 0-3"});
}

TEST_CASE("ranks that have started all, and wait for each other in other communicators: the report says so") {
    check_reports("circle", {"no thread is in a call of this communicator that would move it",
                             "(HOCKET_PROGRESS=thread does); it is in all_reduce #0 (",
                             "of the communicator of ranks 0-1"});
}

TEST_CASE("a signal that the user chose writes the recordings of ranks that hang") {
    Folder folder;
    Process process(job({}, "late"),
                    {{"HOCKET_FLIGHT_RECORDER", folder.path()}, {"HOCKET_FLIGHT_SIGNAL", "USR1"}});
    wait_until_running(process);
    ask_until(
        folder,
        [&] {
            for (int rank = 0; rank < 4; ++rank) kill(pid_of(process, rank), SIGUSR1);
            usleep(100'000);
        },
        3);
    for (const Json& one : folder.recordings()) {
        CHECK(one.at("reason") == "signal");
        CHECK(one.at("origin").at("size") == 4);
        const int rank = one.at("origin").at("rank");
        CHECK(one.at("origin").at("pid") == pid_of(process, rank));
        CHECK(one.at("started") == (rank == 2 ? 3 : 4));
        for (const Json& operation : one.at("collectives")) {
            const bool is_last = operation.at("number") == 3;
            CHECK(operation.at("collective") == "all_reduce");
            CHECK(operation.at("type") == "float32");
            CHECK(operation.at("count") == (is_last ? 5000 : 1000));
            CHECK(operation.at("status") == (is_last ? "in flight" : "success"));
            CHECK(operation.at("ended_us").is_null() == is_last);
            CHECK(operation.contains("at") == is_last);
        }
        CHECK(one.at("collectives").size() == one.at("started"));
    }
}

TEST_CASE("a handler that the program has for the signal goes on working") {
    Folder folder;
    Process process(job({}, "handler"),
                    {{"HOCKET_FLIGHT_RECORDER", folder.path()}, {"HOCKET_FLIGHT_SIGNAL", "USR1"}});
    wait_until_running(process);
    for (int rank = 0; rank < 4; ++rank) {
        REQUIRE(process.wait_for_output("[" + std::to_string(rank) + "] ready", 30s));
        kill(pid_of(process, rank), SIGUSR1);
    }
    const Finished result = process.finish(60s);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(lines_with_prefix(result.out, "[3] ").back() == "handled");
    CHECK(folder.recordings().empty());  // all went well
}

TEST_CASE("a forked child may do with the signal what it likes") {
    Folder folder;
    const Finished result = hocket::test::run(
        job({}, "child"), 60s, {{"HOCKET_FLIGHT_RECORDER", folder.path()}, {"HOCKET_FLIGHT_SIGNAL", "USR1"}});
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    CHECK(lines_with_prefix(result.out, "[1] ").back() == "child ended with 0");
}

TEST_CASE("a file named request in the folder asks for the recordings") {
    Folder folder;
    Process process(job({}, "late"), {{"HOCKET_FLIGHT_RECORDER", folder.path()}});
    wait_until_running(process);
    int asked = 0;
    ask_until(
        folder,
        [&] {
            std::ofstream(folder.path() + "/request") << "please " << ++asked << "\n";
            usleep(400'000);
        },
        3);
    const Finished report = hocket::test::run({HOCKET_RUN, "--report-of", folder.path()}, 20s);
    CHECK(report.exit_code == 0);
    CHECK_THAT(report.out, Contains("rank 2 HAS NOT BEGUN it") && Contains("wait in the end for rank 2"));
    const Finished none = hocket::test::run({HOCKET_RUN, "--report-of", "/nonexistent"}, 20s);
    CHECK(none.exit_code == 1);
    CHECK_THAT(none.err, Contains("there are no recordings in /nonexistent"));
    for (const Json& one : folder.recordings()) {
        CHECK(one.at("reason") == "request");
        CHECK(one.at("request").get<std::string>().starts_with("please "));
    }
    // The same after a loss of rank 1, which stopped the others: no other rank is to blame.
    const Folder after_loss;
    for (Json one : folder.recordings()) {
        one["lost"] = 1;
        one["idle"] = true;
        const int rank = one.at("origin").at("rank");
        std::ofstream(fmt::format("{}/rank-{}.pid-{}.0.json", after_loss.path(), rank, rank + 1)) << one;
    }
    const Finished loss = hocket::test::run({HOCKET_RUN, "--report-of", after_loss.path()}, 20s);
    CHECK_THAT(loss.out,
               Contains("rank 0, since") && !Contains("no thread is in") && !Contains("in the end"));
}

TEST_CASE("a FIFO among recordings is passed over and named") {
    const Folder folder;
    const std::string fifo = folder.path() + "/rank-0.pid-1.0.json";
    REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
    const Finished report = hocket::test::run({HOCKET_RUN, "--report-of", folder.path()}, 30s);
    CHECK(report.in_time);
    CHECK(report.exit_code == 1);
    CHECK_THAT(report.err, Contains("passed over: " + fifo + " cannot be read: it is a FIFO") &&
                               Contains("there are no recordings in"));
}

TEST_CASE("what the variables of the recorder may be") {
    const auto refused = [](const Process::Environment& environment) {
        const Finished result =
            hocket::test::run({HOCKET_RUN, "-n", "1", HOCKET_STUCK_RANKS, ""}, 60s, environment);
        CHECK(result.exit_code == 3);
        return result.err;
    };
    CHECK_THAT(refused({{"HOCKET_FLIGHT_SIGNAL", "USR1"}}), Contains("HOCKET_FLIGHT_RECORDER is not"));
    CHECK_THAT(refused({{"HOCKET_FLIGHT_SIGNAL", "KILL"}, {"HOCKET_FLIGHT_RECORDER", "/tmp"}}),
               Contains("it must be USR1, USR2, HUP or QUIT"));
    CHECK_THAT(refused({{"HOCKET_FLIGHT_RECORDER", "/dev/null/folder"}}),
               Contains("HOCKET_FLIGHT_RECORDER names /dev/null/folder"));
    CHECK_THAT(refused({{"HOCKET_LOG", "loud"}}), Contains("it must be warn, info or debug"));
}

TEST_CASE("a monitored barrier names all ranks that are absent, and breaks nothing") {
    const std::string provider = GENERATE("", "tcp");
    CAPTURE(provider);
    Process process(job({}, "barrier"), {{"HOCKET_PROVIDER_FOR_ALL", provider}});
    wait_until_running(process);
    // In an earlier attempt rank 1 may be absent, too.
    CHECK(process.wait_for_output(
        "[0] not all ranks came to the monitored barrier within 300 ms; absent: ranks 2-3 "
        "(2 of 4)\n",
        30s));
    for (const int rank : {2, 3}) kill(pid_of(process, rank), SIGUSR2);
    const Finished result = process.finish(60s);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 0);
    for (const char* prefix : {"[0] ", "[1] ", "[2] ", "[3] "})
        CHECK(lines_with_prefix(result.out, prefix).back() == "all are here");
}

TEST_CASE("HOCKET_LOG=info says who joins and leaves, and which schedule runs and why") {
    const Process::Environment common{{"HOCKET_LOG", "info"}};
    const Finished chosen = hocket::test::run(job({}, ""), 60s, common);
    INFO(chosen.err);
    const auto lines = lines_with_prefix(chosen.err, "[1] hocket: rank 1: ");
    REQUIRE(lines.size() == 3);
    CHECK(lines[0].starts_with("joined 4 ranks as process "));
    CHECK_THAT(lines[0], Contains("provider memory (all ranks are on this host)"));
    CHECK_THAT(lines[1], Contains("all_reduce of float32 sum, up to 4 KiB: schedule "));
    CHECK_THAT(lines[1], Contains("(by estimate: "));
    CHECK_THAT(lines[1], Contains("; executor "));
    CHECK(lines[2].starts_with("leaves after 3 collective operations"));

    const Finished named = hocket::test::run(job({}, ""), 60s,
                                             {{"HOCKET_LOG", "INFO"},
                                              {"HOCKET_SCHEDULE", "ring"},
                                              {"HOCKET_EXECUTOR", "interpreter"},
                                              {"HOCKET_PROVIDER_FOR_ALL", "tcp"}});
    INFO(named.err);
    CHECK_THAT(named.err, Contains("schedule ring (the communicator's schedule); executor interpreter"));
    CHECK_THAT(named.err, Contains("provider tcp (HOCKET_PROVIDER_FOR_ALL asks for it"));

    const Finished quiet = hocket::test::run(job({}, ""), 60s, {{"HOCKET_LOG", "warn"}});
    CHECK(quiet.err.empty());
}
