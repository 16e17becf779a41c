// The programs as users meet them first: their help, their output, and their errors.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "runtime/base/types.hpp"
#include "tests/multi/process.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using Catch::Matchers::Contains;
using Words = std::vector<std::string>;

TEST_CASE("help is text alone, and no mistake") {
    for (const Words& command :
         {Words{HOCKET_RUN}, {HOCKET_BENCH}, {HOCKET_SCHEDC}, {HOCKET_SCHEDC, "explain"}}) {
        Words asking = command;
        asking.push_back("--help");
        const auto help = hocket::test::run(asking, 20s);
        CAPTURE(asking, help.out);
        CHECK(help.exit_code == 0);
        CHECK(help.err.empty());
        CHECK_THAT(help.out, Contains("--help"));
        CHECK(std::all_of(help.out.begin(), help.out.end(),
                          [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
    }
}

TEST_CASE("each tool tells its version in the same words") {
    for (const std::string& tool : Words{HOCKET_RUN, HOCKET_BENCH, HOCKET_TUNE, HOCKET_SCHEDC, HOCKET_CACHE,
                                         HOCKET_OVERLAP, HOCKET_PARAMS}) {
        const std::string name = std::filesystem::path(tool).filename();
        const auto told = hocket::test::run({tool, "--version"}, 20s);
        CAPTURE(tool, told.err);
        CHECK(told.exit_code == 0);
        CHECK(std::regex_match(told.out, std::regex(name + " [0-9]+\\.[0-9]+\\.[0-9]+\n")));
        const auto help = hocket::test::run({tool, "--help"}, 20s);
        CHECK(std::regex_search(help.out, std::regex("--version +print the version, and exit\n")));
    }
}

TEST_CASE("output that cannot be written is an error, with a reason") {
    const std::string schedules = HOCKET_SCHEDULES;
    for (const std::string& command :
         {std::string(HOCKET_SCHEDC) + " explain ring -n 2", std::string(HOCKET_SCHEDC) + " --help",
          std::string(HOCKET_SCHEDC) + " check " + schedules + "/ring.sched",
          std::string(HOCKET_BENCH) + " all_reduce -b 4 -e 4 -n 1 -w 0",
          std::string(HOCKET_BENCH) + " --help", std::string(HOCKET_TUNE) + " --help",
          std::string(HOCKET_CACHE) + " --help", std::string(HOCKET_RUN) + " --help"})
        for (const char* stdout_is : {" >/dev/full", " >&-"}) {
            const auto result = hocket::test::run({"sh", "-c", "exec " + command + stdout_is}, 20s);
            CAPTURE(command, stdout_is, result.err);
            CHECK(result.exit_code == 1);
            CHECK_THAT(result.err, Contains("not all output could be written") &&
                                       (Contains("No space left") || Contains("Bad file descriptor")));
            CHECK_THAT(result.err, !Contains("refused"));
        }
}

TEST_CASE("nothing fails because stderr cannot be written") {
    for (const char* stderr_is : {" 2>/dev/full", " 2>&-"}) {
        CAPTURE(stderr_is);
        const auto wrong = hocket::test::run(
            {"sh", "-c", std::string("exec ") + HOCKET_SCHEDC + " explain no_such_schedule -n 2" + stderr_is},
            20s);
        CHECK(wrong.exit_code == 1);
        // -v prints to stderr.
        const auto right = hocket::test::run(
            {"sh", "-c",
             std::string("exec ") + HOCKET_BENCH + " all_reduce -v -b 4 -e 4 -n 1 -w 0" + stderr_is},
            20s);
        CHECK(right.exit_code == 0);
        CHECK_THAT(right.out, Contains("Out of bounds values : 0 OK"));
    }
}

TEST_CASE("schedc check reads the folders of schedules once, whatever it checks") {
    // Nobody writes to the pipe again, so a second open would block.
    const std::filesystem::path folder = std::filesystem::path(HOCKET_TEST_FOLDER) / "read_once";
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    REQUIRE(mkfifo((folder / "once.sched").c_str(), 0600) == 0);
    const std::string schedules = HOCKET_SCHEDULES;
    const auto checked = hocket::test::run(
        {"sh", "-c",
         "cat " + schedules + "/ring.sched >" + (folder / "once.sched").string() +
             " & HOCKET_SCHEDULE_PATH=" + folder.string() + " exec timeout 15 " + HOCKET_SCHEDC + " check " +
             schedules + "/ring.sched " + schedules + "/binomial.sched"},
        20s);
    CAPTURE(checked.out, checked.err);
    CHECK(checked.exit_code == 0);
    CHECK_THAT(checked.out, Contains("schedule ring all_reduce") && Contains("binomial broadcast"));
    std::filesystem::remove_all(folder);
}

TEST_CASE("schedc names the types and operators there are") {
    const auto help = hocket::test::run({HOCKET_SCHEDC, "explain", "--help"}, 20s);
    const auto wrong = hocket::test::run({HOCKET_SCHEDC, "explain", "ring", "-n", "2", "-d", "float8"}, 20s);
    CHECK(wrong.exit_code != 0);
    CHECK_THAT(wrong.err, Contains("'float8' is not one of {"));
    const std::regex words("[{,]([a-z0-9_]+)(?=[,}])");
    const auto named = [&](const std::string& text) {
        std::set<std::string> names;
        for (std::sregex_iterator match(text.begin(), text.end(), words), end; match != end; ++match)
            names.insert((*match)[1]);
        return names;
    };
    for (const hocket::DataType type : hocket::all_types) {
        CHECK(named(help.out).contains(std::string(name_of(type))));
        CHECK(named(wrong.err).contains(std::string(name_of(type))));
    }
    for (const hocket::ReduceOp op : hocket::all_ops)
        CHECK(named(help.out).contains(std::string(name_of(op))));
}
