// A rank is killed: every survivor learns of it long before its deadlines, and names the lost rank and the
// place of its own wait.
#include <signal.h>

#include "capi/hocket.h"
#include "tests/multi/process.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using hocket::test::lines_with_prefix;
using hocket::test::Process;

namespace {

std::string tag(int rank) {
    std::string text = "[";
    text += std::to_string(rank);
    return text += "] ";
}

std::int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Returns how many survivors have named a line of the schedule; a rank between two operations is at none.
int kill_one(const std::string& provider, int victim, const std::string& schedule) {
    CAPTURE(provider, victim, schedule);
    // The survivors may end before the kernel has ended the victim. With the report it is the first failure
    // even so.
    Process process(
        {HOCKET_RUN, "-n", "4", "--report", "--grace", "20", "--timeout", "40", HOCKET_ENDLESS, schedule},
        {{"HOCKET_TOPOLOGY", schedule == "bml" ? "bcube(2,2)" : "2x2"},
         {"HOCKET_PROVIDER_FOR_ALL", provider}});
    for (int rank = 0; rank < 4; ++rank) REQUIRE(process.wait_for_output(tag(rank) + "running as ", 30s));
    const pid_t pid = std::stoi(process.output_after(tag(victim) + "running as "));
    const std::int64_t killed = now_ms();
    REQUIRE(kill(pid, SIGKILL) == 0);
    const auto result = process.finish(30s);
    INFO(result.out << result.err);
    CHECK(result.in_time);
    CHECK(result.exit_code == 128 + SIGKILL);
    CHECK(result.err.find("hocket-run: rank " + std::to_string(victim) + " killed by signal 9") !=
          std::string::npos);
    int with_line = 0;
    for (int rank = 0; rank < 4; ++rank) {
        if (rank == victim) continue;
        const std::string prefix = tag(rank);
        const auto ends =
            lines_with_prefix(result.out, prefix + "status " + std::to_string(HKT_ERROR_PEER_LOST) + " at ");
        REQUIRE(ends.size() == 1);
        CHECK(std::stoll(ends[0]) - killed < 10'000);
        const auto destroyed = lines_with_prefix(result.out, prefix + "destroyed after ");
        REQUIRE(destroyed.size() == 1);
        CHECK(std::stoi(destroyed[0]) < 10'000);
        std::string said;
        for (const auto& line : lines_with_prefix(result.err, prefix)) said += line + "\n";
        CHECK(said.find("rank " + std::to_string(victim)) != std::string::npos);
        const bool has_line = said.find(".sched:") != std::string::npos;
        CHECK((has_line || said.find("was between operations") != std::string::npos));
        with_line += has_line;
    }
    return with_line;
}

}  // namespace

TEST_CASE("kill -9 of a rank: the others end soon, and name it") {
    int with_line = 0;
    for (const char* provider : {"", "tcp"})
        for (const int victim : {0, 2})
            for (const char* schedule : {"blueconnect", "bml"})
                with_line += kill_one(provider, victim, schedule);
    CHECK(with_line > 0);
}
