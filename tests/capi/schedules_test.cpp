// Schedules without a communicator: schedc's functions for programs.
#include <hocket.h>

#include <fstream>
#include <string>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/test.hpp"

using Catch::Contains;
using hocket::test::TemporaryFolder;

namespace {

std::string schedule_with(const TemporaryFolder& folder, const std::string& arrow) {
    const std::string path = folder.path() + "/mine.sched";
    std::ofstream(path) << "algorithm mine reduce_scatter(x) over g {\n"
                           "    for s in 1 ..< g.size\n"
                           "        each r in g\n"
                           "            x[r - s] : r "
                        << arrow << " r + 1\n}\n";
    return path;
}

}  // namespace

TEST_CASE("a schedule is checked without a communicator") {
    const TemporaryFolder folder;
    const char* text = nullptr;
    CHECK(hkt_schedule_check(schedule_with(folder, "+>").c_str(), nullptr, &text) == HKT_SUCCESS);
    CHECK_THAT(text, Contains("algorithm mine reduce_scatter") && Contains("groups of 1 to 17"));
    CHECK(hkt_schedule_check(schedule_with(folder, "->").c_str(), nullptr, &text) == HKT_ERROR_SCHEDULE);
    CHECK_THAT(hkt_last_error(),
               Contains("mine.sched:4:13: error: ") && Contains("missing the part of rank 0"));
    CHECK(std::string(text).empty());
    CHECK(hkt_schedule_check((folder.path() + "/none.sched").c_str(), nullptr, nullptr) ==
          HKT_ERROR_NOT_FOUND);
    CHECK_THAT(hkt_last_error(), Contains("none.sched"));
    CHECK(hkt_schedule_check(nullptr, nullptr, &text) == HKT_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("a schedule is explained without a communicator") {
    const char* text = nullptr;
    REQUIRE(hkt_schedule_explain("ring", HKT_ALL_GATHER, "4", 1, &text) == HKT_SUCCESS);
    CHECK_THAT(text, Contains("rank 1 of 4: all_gather by ring") && Contains("ring.sched:") &&
                         Contains("sends 0.75 x"));
    REQUIRE(hkt_schedule_explain(nullptr, -1, "2x3", 5, &text) == HKT_SUCCESS);
    CHECK_THAT(text, Contains("rank 5 of 6: all_reduce by") && Contains("chosen: "));
    CHECK(hkt_schedule_explain("ring", -1, "4", 4, &text) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK_THAT(hkt_last_error(), Contains("there is no rank 4: ranks are 0 to 3"));
    CHECK(hkt_schedule_explain("rin", -1, "4", 0, &text) == HKT_ERROR_NOT_FOUND);
    CHECK(hkt_schedule_explain("ring", 77, "4", 0, &text) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_schedule_explain("ring", -1, nullptr, 0, &text) == HKT_ERROR_INVALID_ARGUMENT);
    CHECK(hkt_schedule_explain("ring", -1, "4y", 0, &text) == HKT_ERROR_SCHEDULE);
}
