// hocket-tune between real processes: later jobs run by its table.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>

#include "dsl/base/collective.hpp"
#include "tests/multi/process.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using Catch::Contains;
using hocket::test::Finished;
using Words = std::vector<std::string>;

namespace {

const std::string table = std::string(HOCKET_TEST_FOLDER) + "/tune_test.json";

Finished run(const std::string& program, const Words& options, const std::string& tuning) {
    Words command{HOCKET_RUN, "-n", "2", "--timeout", "100", program};
    command.insert(command.end(), options.begin(), options.end());
    const auto result = hocket::test::run(command, 110s, {{"HOCKET_TUNING", tuning}});
    INFO(result.out << result.err);
    REQUIRE(result.in_time);
    return result;
}

nlohmann::json written() {
    std::ifstream stream(table);
    return nlohmann::json::parse(stream);
}

// Tunes for 8, 128 and 2048 bytes, or other sizes.
Finished tune(const Words& options, const Words& sizes = {"-b", "8", "-e", "2K", "-f", "16"}) {
    Words all{"--seconds", "2"};
    all.insert(all.end(), sizes.begin(), sizes.end());
    all.insert(all.end(), options.begin(), options.end());
    return run(HOCKET_TUNE, all, table);
}

}  // namespace

TEST_CASE("a later job takes what was measured, and says so") {
    std::filesystem::remove(table);
    const auto tuned = tune({});
    INFO(tuned.out << tuned.err);
    REQUIRE(tuned.exit_code == 0);
    CHECK_THAT(tuned.out, Contains("written to " + table));
    const auto job = written()["jobs"].at(0);
    CHECK(job["ranks"] == 2);
    CHECK(job["provider"] == "memory");
    for (const auto collective : hocket::dsl::all_collectives) {
        const auto ranges = job["collectives"][std::string(name_of(collective))];
        REQUIRE(ranges.size() == 3);
        CHECK(ranges[1]["bytes"] == 128);
        CHECK(ranges[1]["from"] == 33);
        CHECK(ranges[1]["up_to"] == 512);
        for (const auto& range : ranges) CHECK(range["us"] > 0);
    }

    const std::string schedule = job["collectives"]["all_reduce"][1]["schedule"];
    const Words bench{"all_reduce", "-b", "128", "-e", "128", "-n", "3", "-v"};
    const auto later = run(HOCKET_BENCH, bench, table);
    CHECK_THAT(later.out,
               Contains("tuned: " + schedule + " ") && Contains("measured at 128 B (" + table + ")"));
    CHECK_THAT(run(HOCKET_BENCH, bench, "off").out, !Contains("tuned: ") && Contains("(estimates)"));
    Words named = bench;
    named.insert(named.end(), {"--schedule", "ring"});
    CHECK_THAT(run(HOCKET_BENCH, named, table).out, !Contains("tuned: "));
}

TEST_CASE("a collective alone may be measured again, the rest of the table stays") {
    std::filesystem::remove(table);
    REQUIRE(tune({"--collective", "broadcast"}).exit_code == 0);
    const auto first = written();
    REQUIRE(tune({"--collective", "all_gather", "-o", table}, {"-b", "8", "-e", "8"}).exit_code == 0);
    const auto both = written();
    REQUIRE(both["jobs"].size() == 1);
    CHECK(both["jobs"][0]["collectives"].size() == 2);
    CHECK(both["jobs"][0]["collectives"]["broadcast"] == first["jobs"][0]["collectives"]["broadcast"]);
    CHECK(both["jobs"][0]["collectives"]["all_gather"].size() == 1);
}

TEST_CASE("a damaged table is a warning to later jobs, and hocket-tune leaves it alone") {
    std::ofstream(table) << "{\"format\": \"hocket tuning ta";
    const auto later = run(HOCKET_BENCH, {"all_reduce", "-b", "128", "-e", "128", "-n", "3"}, table);
    CHECK(later.exit_code == 0);
    CHECK_THAT(later.err, Contains("[0] hocket: warning: the tuning table " + table + " is ignored"));
    CHECK_THAT(later.err, !Contains("[1] "));
    const auto again = tune({});
    CHECK(again.exit_code == 1);
    CHECK_THAT(again.err, Contains("is not a tuning table to add to"));
    CHECK(std::filesystem::file_size(table) == 28);
}

TEST_CASE("a folder of schedules that is not there is a warning, from rank 0") {
    const std::string folder = std::string(HOCKET_TEST_FOLDER) + "/no-schedules";
    std::filesystem::create_directory(folder);
    const auto said = [](const std::string& path) {
        const auto outcome = hocket::test::run(
            {HOCKET_RUN, "-n", "2", HOCKET_BENCH, "all_reduce", "-b", "8", "-e", "8", "-n", "1"}, 60s,
            {{"HOCKET_SCHEDULE_PATH", path}, {"HOCKET_TUNING", "off"}});
        CHECK(outcome.exit_code == 0);
        return outcome.err;
    };
    CHECK_THAT(said(folder + ":/no/such/folder"),
               Contains("[0] hocket: warning: /no/such/folder, which the schedule path "
                        "(HOCKET_SCHEDULE_PATH) names, is no folder here") &&
                   !Contains("[1] hocket: warning") && !Contains("warning: " + folder + ","));
    CHECK_THAT(said(folder), !Contains("warning"));
    // A file that cannot run is one, too, once.
    std::ofstream(folder + "/gone.sched") << "import \"nowhere.sched\"\n";
    const std::string err = said(folder);
    CHECK_THAT(err, Contains("[0] hocket: warning: not all that lies in the folders of the schedule path") &&
                        Contains("gone.sched:1:8: error: there is no file") &&
                        !Contains("[1] hocket: warning"));
    const std::string text = "not all that lies";
    CHECK(err.find(text) == err.rfind(text));
    std::filesystem::remove_all(folder);
}

TEST_CASE("the levels of a topology are measured, and written as one that other tools read") {
    const std::string file = std::string(HOCKET_TEST_FOLDER) + "/levels.sched";
    struct Job {
        const char *ranks, *topology, *provider, *levels;
    };
    for (const Job& job :
         {Job{"2", "", "", "local[2] { medium memory"}, Job{"4", "2x2", "tcp", "l0[2] { medium fabric"},
          Job{"3", "", "tcp", "l0[3] { medium fabric"},
          Job{"4", "2mx2h", "tcp", "host[2] { medium fabric"}}) {
        CAPTURE(job.ranks, job.topology, job.provider);
        std::filesystem::remove(file);
        const auto tuned = hocket::test::run(
            {HOCKET_RUN, "-n", job.ranks, HOCKET_TUNE, "--topology", file, "--seconds", "0.2"}, 60s,
            {{"HOCKET_TOPOLOGY", job.topology}, {"HOCKET_PROVIDER_FOR_ALL", job.provider}});
        INFO(tuned.out << tuned.err);
        REQUIRE(tuned.exit_code == 0);
        CHECK_THAT(tuned.out, Contains("written to " + file));
        std::ifstream stream(file);
        const std::string text{std::istreambuf_iterator<char>(stream), {}};
        CHECK_THAT(text, Contains(job.levels));
        const std::regex figures(R"(latency ([0-9.e+-]+)us  bandwidth ([0-9.e+-]+)([MG])B/s)");
        const std::sregex_iterator first(text.begin(), text.end(), figures), none;
        CHECK(std::distance(first, none) == (std::strchr(job.topology, 'x') ? 2 : 1));
        for (auto level = first; level != none; ++level) {
            const double rate = std::stod((*level)[2]) * ((*level)[3] == "G" ? 1e9 : 1e6);
            CHECK(std::stod((*level)[1]) > 0.01);  // us
            CHECK(std::stod((*level)[1]) < 1e6);
            CHECK(rate > 1e5);  // bytes per second
            CHECK(rate < 1e13);
        }
        const auto predicted =
            hocket::test::run({HOCKET_SCHEDC, "predict", "ring", "-t", file, "-b", "1M"}, 20s);
        CHECK(predicted.exit_code == 0);
        CHECK_THAT(predicted.out, Contains("ring on measured, " + std::string(job.ranks) + " ranks"));
        const auto later = hocket::test::run({HOCKET_RUN, "-n", job.ranks, HOCKET_BENCH, "all_reduce", "-b",
                                              "4K", "-e", "4K", "-n", "1", "--predict"},
                                             60s, {{"HOCKET_TOPOLOGY", file}});
        CHECK(later.exit_code == 0);
        CHECK_THAT(later.out, Contains("topology " + file));
    }
    std::filesystem::remove(file);
}

TEST_CASE("a topology that cannot be written is said before it is measured") {
    const auto said = [](const std::string& file, const Words& more = {}) {
        Words command{HOCKET_RUN, "-n", "2", HOCKET_TUNE, "--topology", file};
        command.insert(command.end(), more.begin(), more.end());
        const auto result = hocket::test::run(command, 20s);
        CHECK(result.exit_code != 0);
        CHECK_THAT(result.out, !Contains("level"));
        return result.err;
    };
    CHECK_THAT(said("levels"), Contains("the name of a topology's file ends in .sched"));
    CHECK_THAT(said("/no/such/place/levels.sched"), Contains("there is no folder /no/such/place"));
    CHECK_THAT(said("levels.sched", {"--collective", "broadcast"}), Contains("excludes"));
    const auto alone = hocket::test::run({HOCKET_TUNE, "--topology", "levels.sched"}, 20s);
    CHECK(alone.exit_code == 1);
    CHECK_THAT(alone.err, Contains("hocket-run -n N"));
}

TEST_CASE("what cannot be is said before anything is measured") {
    std::filesystem::remove(table);
    const auto unwritable = tune({"-o", "/proc/no/such/place.json"});
    CHECK(unwritable.exit_code == 1);
    CHECK_THAT(unwritable.err, Contains("/proc/no/such/place.json cannot be written"));
    const auto alone = hocket::test::run({HOCKET_TUNE}, 20s, {{"HOCKET_TUNING", table}});
    CHECK(alone.exit_code == 1);
    CHECK_THAT(alone.err, Contains("hocket-run -n N"));
    const auto wrong = tune({"--collective", "all_sorts"});
    CHECK(wrong.exit_code == 2);
    CHECK_THAT(wrong.err, Contains("all_sorts"));
    const auto too_small = tune({"--collective", "all_gather"}, {"-b", "4", "-e", "4"});
    CHECK(too_small.exit_code == 1);
    CHECK_THAT(too_small.err, Contains("raise --maxbytes"));
    const auto upside_down = tune({}, {"-b", "4K", "-e", "2K"});
    CHECK(upside_down.exit_code == 2);
    CHECK_THAT(upside_down.err, Contains("--minbytes up to --maxbytes"));
}
