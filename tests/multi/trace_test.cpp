// hocket-run --trace, with real ranks: the contents of the file, and the correction of hosts' clocks.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
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
using hocket::test::TemporaryFolder;
using Json = nlohmann::json;

namespace {

struct Slice {
    std::string name;
    int rank = 0, row = 0;
    double began = 0, ended = 0;
    Json facts;
};

// By category. A slice without an end goes on for ever.
std::map<std::string, std::vector<Slice>> slices_in(const std::string& path) {
    std::map<std::string, std::vector<Slice>> slices;
    std::map<std::pair<int, int>, std::vector<std::pair<std::string, Slice>>> open;  // by row
    std::ifstream file(path);
    for (const Json& event : Json::parse(file)) {
        const std::string phase = event.at("ph");
        if (phase == "M") continue;
        const double ts = event.at("ts");
        const int rank = event.at("pid").get<int>() - 1, row = event.at("tid");
        auto& of_row = open[{rank, row}];
        if (phase == "E") {
            REQUIRE_FALSE(of_row.empty());
            auto [category, slice] = std::move(of_row.back());
            of_row.pop_back();
            slice.ended = ts;
            slice.facts.update(event.at("args"));
            slices[category].push_back(std::move(slice));
            continue;
        }
        const double ended = phase == "X" ? ts + event.at("dur").get<double>() : 1e18;
        const Slice slice{event.at("name"), rank, row, ts, ended, event.at("args")};
        if (phase == "X")
            slices[event.at("cat")].push_back(slice);
        else
            of_row.emplace_back(event.at("cat"), slice);
    }
    for (auto& [row, of_row] : open)
        for (auto& [category, slice] : of_row) slices[category].push_back(slice);
    return slices;
}

std::vector<std::string> bench(std::vector<std::string> command, const std::string& bytes) {
    command.insert(command.end(),
                   {HOCKET_BENCH, "all_reduce", "-b", bytes, "-e", bytes, "-n", "5", "-w", "1"});
    return command;
}

// The ranks' files that have collectives already: a rank writes its records each second.
int traces_with_collectives(const std::string& folder) {
    int found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        std::ifstream file(entry.path());
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        found += text.find(R"("cat":"collective")") != std::string::npos;
    }
    return found;
}

}  // namespace

TEST_CASE("a trace has each rank's operations, and in them the steps by source line") {
    const std::string provider = GENERATE("", "tcp");
    CAPTURE(provider);
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/trace.json";
    const Finished result =
        hocket::test::run(bench({HOCKET_RUN, "-n", "3", "--trace", path}, "4M"), 60s,
                          {{"HOCKET_PROVIDER_FOR_ALL", provider}, {"HOCKET_SCHEDULE", "ring"}});
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    CHECK_THAT(result.err, Contains("the trace is in " + path) && Contains("of 3 ranks"));
    auto slices = slices_in(path);
    std::map<int, int> operations;
    for (const Slice& one : slices["collective"]) {
        CHECK(one.facts.at("status") == "success");
        CHECK(one.began >= 0);
        if (one.facts.at("count") == 1 << 20) {
            ++operations[one.rank];
            CHECK_THAT(one.facts.at("what").get<std::string>(),
                       Contains("all_reduce #") && Contains("(ring on 3"));
        }
    }
    CHECK(operations.size() == 3);
    for (const auto& [rank, count] : operations) CHECK(count >= 6);
    // Each step lies in an operation of its row.
    std::size_t by_line = 0;
    for (const Slice& step : slices["step"]) {
        bool is_inside = false;
        for (const Slice& one : slices["collective"])
            is_inside |= one.rank == step.rank && one.row == step.row && one.began <= step.began + 0.001 &&
                         step.ended <= one.ended + 0.001;
        CHECK(is_inside);
        by_line += step.name.starts_with("ring.sched:");
    }
    CHECK(by_line > 20);
}

TEST_CASE("clocks of hosts that are far apart are put right by the operations themselves") {
    if (hocket::test::run({"unshare", "--time", "--monotonic", "5", "--fork", "true"}, 10s).exit_code != 0)
        HOCKET_SKIP("this process may not make a time namespace (unshare --time)");
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/trace.json";
    // Ranks 2 and 3 are on a host whose clock is half an hour ahead.
    const std::string there = "exec unshare --time --monotonic 1800 --fork env HOCKET_HOST_ID=b \"$@\"";
    std::vector<std::string> command{
        HOCKET_RUN, "-n",
        "4",        "--trace",
        path,       "sh",
        "-c",       "if [ $RANK -gt 1 ]; then " + there + "; else HOCKET_HOST_ID=a exec \"$@\"; fi",
        "sh"};
    const Finished result = hocket::test::run(bench(command, "64K"), 60s);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    std::size_t clocks = 0;
    double widest = 0;  // ms
    for (const std::string& line : lines_with_prefix(result.err, "hocket-run: the clock of ")) {
        double ahead = 0, within = 0;
        const std::string figures = line.substr(line.find(" is ") + 1);
        REQUIRE(std::sscanf(figures.c_str(), "is %lf ms from that of %*[^,], within %lf ms", &ahead,
                            &within) == 2);
        CHECK(std::abs(ahead - 1'800'000) <= within);
        widest = std::max(widest, within);
        ++clocks;
    }
    CHECK(clocks == 2);  // each of the two has a namespace of its own
    std::map<std::pair<int, std::string>, std::vector<Slice>> operations;
    const auto slices = slices_in(path);
    for (const Slice& one : slices.at("collective"))
        if (one.facts.at("count") > 0 && one.facts.at("collective") == "all_reduce")
            operations[{one.row, one.name}].push_back(one);
    std::size_t compared = 0;
    for (const auto& [name, ranks] : operations) {
        if (ranks.size() != 4) continue;
        ++compared;
        // No rank ends it before another has begun it, as far as the clocks can be compared.
        for (const Slice& a : ranks)
            for (const Slice& b : ranks) CHECK(a.ended > b.began - 2000 * widest);
    }
    CHECK(compared >= 6);
}

TEST_CASE("a rank that is killed, and those that it leaves behind, are in the trace up to the end") {
    const TemporaryFolder folder, traces;
    const std::string path = folder.path() + "/trace.json";
    Process process({HOCKET_RUN, "-n", "3", "--grace", "20", "--trace", path, HOCKET_ENDLESS},
                    {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}, {"HOCKET_TRACE", traces.path()}});
    REQUIRE(process.wait_for_output("[1] running as ", 40s));
    REQUIRE(eventually([&] { return traces_with_collectives(traces.path()) == 3; }, 30s));
    kill(std::stoi(process.output_after("[1] running as ")), SIGKILL);
    const auto ended = process.finish(30s);
    CHECK(ended.in_time);
    auto slices = slices_in(path);
    std::map<int, std::size_t> of_rank;
    std::size_t lost = 0;
    for (const Slice& one : slices["collective"]) {
        ++of_rank[one.rank];
        lost += one.facts.value("status", "") != "success";
    }
    CHECK(of_rank.size() == 3);
    CHECK(lost >= 2);
}

TEST_CASE("a job that hangs and is ended has what it hung in") {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/trace.json";
    const Finished result = hocket::test::run(
        {HOCKET_RUN, "-n", "4", "--timeout", "8", "--trace", path, HOCKET_STUCK_RANKS, "late"}, 90s,
        {{"HOCKET_PROVIDER_FOR_ALL", "tcp"}, {"HOCKET_SCHEDULE", "ring"}});
    INFO(result.out << result.err);
    CHECK(result.exit_code == 124);
    auto slices = slices_in(path);
    // hocket-run ends the ranks one after another. A rank that ends late may notice that others are gone;
    // then its collective fails, and the trace has its end.
    std::map<int, double> hung_since;
    for (const Slice& one : slices["collective"])
        if (one.facts.value("count", 0) == 5000 && one.facts.value("status", "") != "success")
            hung_since[one.rank] = one.began;
    std::map<int, std::string> hung;  // by rank: the step
    for (const Slice& step : slices["step"])
        if (hung_since.count(step.rank) && step.began >= hung_since[step.rank])
            hung[step.rank] = step.facts.at("doing");
    CHECK(hung.size() == 3);
    CHECK(hung.count(2) == 0);  // it computes
    CHECK_THAT(hung[3], Contains("from rank 2"));
}

TEST_CASE("a folder that cannot be written to is an error of the communicator, with its name") {
    const Finished result =
        hocket::test::run(bench({HOCKET_RUN, "-n", "2"}, "1K"), 60s, {{"HOCKET_TRACE", "/dev/null/folder"}});
    CHECK(result.exit_code != 0);
    CHECK_THAT(result.err + result.out, Contains("/dev/null/folder") && Contains("HOCKET_TRACE"));
    const Finished early =
        hocket::test::run(bench({HOCKET_RUN, "-n", "2", "--trace", "/nonexistent/t"}, "1K"), 60s);
    CHECK(early.exit_code != 0);
    CHECK_THAT(early.err, Contains("the trace /nonexistent/t cannot be written"));
    CHECK(early.out == "");  // the ranks have not run in vain
    const Finished none =
        hocket::test::run({HOCKET_RUN, "--trace-of", "/nonexistent", "--trace", "/tmp/t"}, 60s);
    CHECK(none.exit_code != 0);
    CHECK_THAT(none.err, Contains("there are no traces in /nonexistent"));
}
