#include "dsl/elaboration/value.hpp"

#include "dsl/elaboration/bind.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;

namespace {

// Evaluates in a scope with r = 5 and a group g of 6.
std::int64_t value(const std::string& text) {
    const dsl::SourceFile file{"t.sched", "algorithm a all_gather(x) over g where " + text + " {}"};
    const dsl::ast::File tree = dsl::parse(file);
    dsl::Scope scope;
    scope.add("r", std::int64_t{5});
    scope.add("g", dsl::make_group(dsl::flat_topology(6), {0}));
    return dsl::Evaluator(scope, nullptr).integer(*tree.algorithms[0].where);
}

std::string value_error(const std::string& text) {
    return test::error_of([&] { value(text); });
}

}  // namespace

TEST_CASE("arithmetic is on whole numbers, rounds down, and mod is never negative") {
    CHECK(value("7 / 2") == 3);
    CHECK(value("-7 / 2") == -4);
    CHECK(value("-7 mod 3") == 2);
    CHECK(value("2 ** 10 - 1") == 1023);
    CHECK(value("r xor 3") == 6);
    CHECK(value("g.size + r") == 11);
    CHECK(value("(r < 6) + (r <= 5) + (r > 5) + (r >= 5) + (r == 5) + (r != 5)") == 4);
    CHECK(value("not 0 and 1 or 0") == 1);
    CHECK(value("0 and 1 / 0") == 0);
    CHECK(value("1 or 1 / 0") == 1);
}

TEST_CASE("functions of the language have their usual values") {
    CHECK(value("pow2(64) + pow2(63) + pow2(1) + pow2(0) + pow2(-4)") == 2);
    CHECK(value("log2(1)") == 0);
    CHECK(value("log2(9)") == 3);
    CHECK(value("log2_up(9)") == 4);
    CHECK(value("log2_up(8)") == 3);
    CHECK(value("log2_up(1)") == 0);
    CHECK(value("min(3, 4) * max(3, 4)") == 12);
}

TEST_CASE("bits and logarithms are those of whole numbers") {
    CHECK(value("6 & 3") == 2);
    CHECK(value("6 | 3") == 7);
    CHECK(value("-1 & 255") == 255);
    CHECK(value("-8 | 3") == -5);
    CHECK(value("1 << 62") == std::int64_t{1} << 62);
    CHECK(value("-1 << 63") == INT64_MIN);
    CHECK(value("0 << 63") == 0);
    CHECK(value("-7 >> 1") == -4);
    CHECK(value("-1 >> 63") == -1);
    CHECK(value("r >> 1 << 1") == 4);
    CHECK(value("log(1, 4) + log_up(1, 4)") == 0);
    CHECK(value("log(63, 4)") == 2);
    CHECK(value("log(64, 4)") == 3);
    CHECK(value("log_up(64, 4)") == 3);
    CHECK(value("log_up(65, 4)") == 4);
    CHECK(value("log(9223372036854775807, 2)") == 62);
    CHECK(value("log_up(9223372036854775807, 2)") == 63);
    CHECK(value("log_up(2, 9223372036854775807)") == 1);
    for (int n = 1; n <= 70; ++n) {  // as the functions of base 2
        const std::string text = std::to_string(n);
        CHECK(value("log(" + text + ", 2) == log2(" + text + ")"));
        CHECK(value("log_up(" + text + ", 2) == log2_up(" + text + ")"));
    }
}

TEST_CASE("if chooses one of two values, and looks only at that one") {
    CHECK(value("if r == 5 then 1 else 2") == 1);
    CHECK(value("if r != 5 then 1 else 2") == 2);
    CHECK(value("if 0 then 1 / 0 else 2") == 2);
    CHECK(value("if -3 then 1 else log2(0)") == 1);
    CHECK(value("if r < 4 then 0 else if r < 6 then 1 else 2") == 1);
    CHECK(value("(if r > 4 then g else q).size") == 6);
    CHECK(value("1 + (if r == 5 then 1 else 2) * 3") == 4);
    CHECK(value("if 0 or 1 then 1 else 2 + 3") == 1);
    CHECK(value("if 0 then 1 else 2 + 3") == 5);
}

TEST_CASE("what has no value is an error with its place") {
    CHECK_THAT(value_error("1 << 64"), Contains("1:45: error: a shift by 64 places") && Contains("0 to 63"));
    CHECK_THAT(value_error("1 >> -1"), Contains("a shift by -1 places"));
    CHECK_THAT(value_error("1 << 63"), Contains("64 bits"));
    CHECK_THAT(value_error("-3 << 62"), Contains("64 bits"));
    CHECK_THAT(value_error("log(0, 2)"), Contains("log of 0: the argument must be positive"));
    CHECK_THAT(value_error("log_up(-4, 2)"), Contains("log_up of -4"));
    CHECK_THAT(value_error("log(4, 1)"), Contains("1:47: error: a logarithm to the base 1"));
    CHECK_THAT(value_error("log(4)"), Contains("log takes 2 arguments, not 1"));
    CHECK_THAT(value_error("g & 1"), Contains("expected a number, but this is a group"));
    CHECK_THAT(value_error("if g then 1 else 2"), Contains("expected a number, but this is a group"));
    CHECK_THAT(value_error("if r == 5 then q else 2"), Contains("'q' is not known here"));
    CHECK_THAT(value_error("1 + (if r == 5 then g else 2)"), Contains("but this is a group"));
    CHECK_THAT(value_error("1 / 0"), Contains("division by zero"));
    CHECK_THAT(value_error("1 mod 0"), Contains("the divisor must be positive"));
    CHECK_THAT(value_error("9223372036854775807 + 1"), Contains("64 bits"));
    CHECK_THAT(value_error("(-9223372036854775807 - 1) / -1"), Contains("64 bits"));
    CHECK_THAT(value_error("2 ** 63"), Contains("64 bits"));
    CHECK_THAT(value_error("2 ** (-1)"), Contains("negative exponent"));
    CHECK_THAT(value_error("log2(0)"), Contains("must be positive"));
    CHECK_THAT(value_error("q"), Contains("'q' is not known here\n"));
    CHECK_THAT(value_error("g"), Contains("expected a number, but this is a group"));
    CHECK_THAT(value_error("g.length"), Contains("a group has no 'length'"));
    CHECK_THAT(value_error("sqrt(2)"), Contains("there is no function 'sqrt'"));
    CHECK_THAT(value_error("min(1)"), Contains("min takes 2 arguments"));
    CHECK_THAT(value_error("r[1]"), Contains("a number has no elements"));
    CHECK_THAT(value_error("levels.count"), Contains("'levels' is not known here"));
}

TEST_CASE("ranks of a topology are mixed radix numbers, innermost level first") {
    const dsl::Topology topology = dsl::grid_topology("2x3x4");
    CHECK(topology.ranks() == 24);
    CHECK(topology.coordinate(23, 0) == 1);
    CHECK(topology.coordinate(23, 1) == 2);
    CHECK(topology.coordinate(23, 2) == 3);
    const dsl::Group middle = dsl::make_group(topology, {1});
    CHECK(members_of(topology, middle, 9) == std::vector<dsl::Rank>{7, 9, 11});
    const dsl::Group outer = dsl::make_group(topology, {2, 0});
    CHECK(members_of(topology, outer, 2) == std::vector<dsl::Rank>{2, 3, 8, 9, 14, 15, 20, 21});
    CHECK(dsl::grid_topology("two").levels.empty());
    CHECK_THAT(test::error_of([] { dsl::grid_topology("0x2"); }), Contains("1 to 1048576 ranks"));
    CHECK_THAT(test::error_of([] { dsl::grid_topology("99999x99999"); }), Contains("a topology has at most"));
}

TEST_CASE("topologies of the library are built with their arguments") {
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    const dsl::Topology bcube = dsl::find_topology(library, "bcube(4, 3)", 64);
    CHECK(bcube.name == "bcube(4, 3)");
    REQUIRE(bcube.levels.size() == 3);
    CHECK(bcube.levels[0].name == "port");
    CHECK(bcube.levels[1].name == "port1");
    const dsl::Topology cloud = dsl::find_topology(library, "cloud(2, 2)", 4);
    CHECK(cloud.levels[1].bandwidth == Approx(25e9 / 8));
    CHECK(cloud.levels[1].shared_by == "gpu");
    CHECK_THAT(test::error_of([&] { dsl::find_topology(library, "bcube(4, 3)", 63); }),
               Contains("has 64 ranks, but the job has 63"));
    CHECK_THAT(test::error_of([&] { dsl::find_topology(library, "torus", 4); }),
               Contains("there is no topology 'torus'"));
    CHECK_THAT(test::error_of([&] { dsl::find_topology(library, "bcube(1, 2, 3)", 1); }),
               Contains("at most 2 arguments"));
}
