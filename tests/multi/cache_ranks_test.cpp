// The data cache over the ranks of a job: the source is read once, and a rank that dies is not missed for
// long.
#include <csignal>

#include "tests/multi/process.hpp"
#include "tests/runtime/cache/samples.hpp"
#include "tests/support/test.hpp"

using namespace std::chrono_literals;
using hocket::test::lines_with_prefix;
using hocket::test::TemporaryFolder;

namespace {

std::string tag(int rank) {
    std::string text = "[";
    text += std::to_string(rank);
    return text += "] ";
}

}  // namespace

TEST_CASE("four ranks read a sample once, from each other's memories") {
    const auto result =
        hocket::test::run({HOCKET_RUN, "-n", "4", "--timeout", "60", HOCKET_CACHE_RANKS, "500"}, 70s,
                          {{"HOCKET_ENCRYPTION", GENERATE("off", "on")}});
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    for (int rank = 0; rank < 4; ++rank)
        CHECK(
            lines_with_prefix(result.out, tag(rank) + "reads of all ranks: 500; served some; from peers some")
                .size() == 1);
}

TEST_CASE("four ranks that share a folder, too, read a sample once, and the next job reads nothing") {
    const TemporaryFolder folder;
    for (const char* reads : {"reads of all ranks: 500;", "reads of all ranks: 0;"}) {
        const auto result =
            hocket::test::run({HOCKET_RUN, "-n", "4", "--timeout", "60", HOCKET_CACHE_RANKS, "500"}, 70s,
                              {{"HOCKET_CACHE_FOLDER", folder.path()}});
        INFO(result.out << result.err);
        REQUIRE(result.exit_code == 0);
        CHECK(lines_with_prefix(result.out, tag(0) + reads).size() == 1);
    }
}

TEST_CASE("where a rank is killed while others ask it, they read the source, and all samples are right") {
    const auto result = hocket::test::run(
        {HOCKET_RUN, "-n", "3", "--grace", "30", "--timeout", "60", HOCKET_CACHE_RANKS, "600", "1"}, 70s);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 128 + SIGKILL);
    for (const int rank : {0, 2})
        CHECK(lines_with_prefix(result.out, tag(rank) + "all right without rank 1: it was missed").size() ==
              1);
}

TEST_CASE("ranks with different samples are told so") {
    const auto result = hocket::test::run({HOCKET_RUN, "-n", "2", "--timeout", "60", "sh", "-c",
                                           std::string("DATASET=$RANK exec ") + HOCKET_CACHE_RANKS + " 10"},
                                          70s);
    INFO(result.out << result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.find("hold different samples") != std::string::npos);
}
