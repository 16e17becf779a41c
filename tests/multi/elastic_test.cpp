// The example of a job that processes leave and join at any time comes to its end, with one result.
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <random>

#include "tests/multi/process.hpp"
#include "tests/support/test.hpp"

using namespace hocket::test;
using namespace std::chrono_literals;

namespace {

struct Folder {
    Folder() {
        std::string made = HOCKET_TEST_FOLDER "/elastic-XXXXXX";
        REQUIRE(mkdtemp(made.data()) != nullptr);
        path = made;
    }
    ~Folder() { std::filesystem::remove_all(path); }
    std::string path;
};

}  // namespace

TEST_CASE("a job whose processes are killed and replaced at any time learns what one process learns") {
    std::mt19937 random(20261126);
    const Folder folder;
    std::vector<std::unique_ptr<Process>> job;
    const auto start = [&](bool is_first) {
        std::vector<std::string> command{HOCKET_ELASTIC, "--folder", folder.path,  "--steps", "1000",
                                         "--pause-ms",   "10",       "--patience", "100"};
        if (is_first) command.push_back("--first");
        job.push_back(
            std::make_unique<Process>(command, Process::Environment{{"HOCKET_TIMEOUT_MS", "60000"}}));
    };
    start(true);
    for (int i = 0; i < 3; ++i) start(false);
    REQUIRE(job[0]->wait_for_output(": there are 4 ranks", 60s));  // all have been taken in
    for (int round = 0; round < 4; ++round) {                      // the first of them in the first round
        const std::size_t which = round == 0 ? 0 : random() % job.size();
        kill(job[which]->pid(), SIGKILL);
        CHECK(job[which]->finish(10s).exit_code == 128 + SIGKILL);
        job.erase(job.begin() + static_cast<std::ptrdiff_t>(which));
        start(false);
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 300));
    }
    for (const auto& process : job) {
        const Finished finished = process->finish(100s);
        INFO(finished.out << finished.err);
        CHECK(finished.exit_code == 0);
        CHECK(finished.out.find(" of 4: 1000 steps, slope 3.0000") != std::string::npos);
    }
}

TEST_CASE("a new process that finds no job says so") {
    const Folder folder;
    const auto finished = run({HOCKET_ELASTIC, "--folder", folder.path, "--patience", "1"}, 60s);
    CHECK(finished.exit_code == 1);
    CHECK(finished.err.find("there is no id in the folder") != std::string::npos);
}
