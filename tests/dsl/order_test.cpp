// The properties that schedules need of the operator that they combine with.
#include "dsl/proof/order.hpp"

#include <set>

#include "dsl/planning/choose.hpp"
#include "tests/dsl/cases.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using dsl::Collective;

namespace {

// One of the four kinds: with or without either word.
dsl::Operator operator_that_is(bool commutative, bool associative) {
    const test::TemporarySchedule file(std::string("# mine\noperator mine(a, b)") +
                                       (commutative ? " commutative" : "") +
                                       (associative ? " associative" : "") + " = a - b");
    dsl::Library library({});
    return dsl::find_operator(library, file.path());
}

std::string refusal_of(dsl::PlanRequest request, bool commutative, bool associative) {
    const dsl::Operator op = operator_that_is(commutative, associative);
    request.op = &op;
    return test::error_of([&] { dsl::check_schedule(request); });
}

struct Needs {
    bool commutative, associative;
};

// Checks that a schedule is refused exactly if the operator lacks a property that it needs.
void check_needs(const dsl::PlanRequest& request, Needs needs) {
    for (const bool commutative : {false, true})
        for (const bool associative : {false, true}) {
            INFO(request.schedule << " " << name_of(request.collective) << " on " << request.topology
                                  << (commutative ? ", commutative" : "")
                                  << (associative ? ", associative" : ""));
            const std::string text = refusal_of(request, commutative, associative);
            const bool suits = (commutative || !needs.commutative) && (associative || !needs.associative);
            CHECK((text == "") == suits);
            if (suits) continue;
            CHECK_THAT(text, Contains("cannot run " + std::string(name_of(request.collective)) +
                                      " with operator mine, which is not said to be " +
                                      (!commutative && needs.commutative ? "commutative" : "associative")) &&
                                 Contains("note: the operator") && Contains("operator mine(a, b)"));
        }
}

void check_needs(Collective collective, const std::string& schedule, const std::string& topology, Needs needs,
                 dsl::Rank root = 0) {
    check_needs(test::request(collective, schedule, topology, 0, root), needs);
}

void check_text(const std::string& text, const std::string& topology, Needs needs) {
    const test::TemporarySchedule file(text);
    check_needs(Collective::all_reduce, file.path(), topology, needs);
}

}  // namespace

TEST_CASE("what the library's schedules need of an operator") {
    using enum Collective;
    // All operands at once, in the order of ranks.
    for (const char* topology : {"1", "2", "4", "5", "2x3"}) {
        check_needs(all_reduce, "direct", topology, {false, false});
        check_needs(all_reduce, "exchange", topology, {false, false});
        check_needs(reduce_scatter, "direct", topology, {false, false});
    }
    for (const dsl::Rank root : {0, 1, 3}) check_needs(reduce, "direct", "4", {false, false}, root);
    // Each chunk begins at another rank, and wraps around.
    check_needs(all_reduce, "ring", "2", {false, false});
    check_needs(all_reduce, "ring", "4", {true, true});
    // The two of a pair are far apart first.
    check_needs(all_reduce, "halving", "2", {false, false});
    check_needs(all_reduce, "halving", "4", {true, true});
    check_needs(reduce, "binomial", "4", {true, true});
    // Level by level, and the innermost ranks follow each other.
    check_needs(all_reduce, "flat(direct, direct)", "4", {false, false});
    check_needs(all_reduce, "nested", "2x2", {false, true});
    // Schedules that do not combine need no property.
    check_needs(all_gather, "ring", "4", {false, false});
    check_needs(all_to_all, "direct", "4", {false, false});
}

TEST_CASE("a left fold in the order of ranks needs nothing, on whichever rank it happens") {
    check_text("schedule s all_reduce(x) { x : 0 +> 1 x : 1 +> 2 x : 2 -> 0 x : 2 -> 1 }", "3",
               {false, false});
    // Rank 2 gets the part of 0 and 1, and has its own on the right.
    check_text("schedule s all_reduce(x) { x : 1 +> 0 x : 0 +> 2 x : 2 -> 0 x : 2 -> 1 }", "3",
               {false, false});
    // At once, and 3 a moment later.
    check_text(
        "schedule s all_reduce(x) { each q in 0 ..< 3 where q != 1 x : q +> 1 x : 3 +> 1\n"
        "each q in world where q != 1 x : 1 -> q }",
        "4", {false, false});
}

TEST_CASE("changed places and other groups are told apart") {
    // Rank 0 has the value of 2 when the part of {0, 1} comes to it.
    const std::string swapped =
        "schedule s all_reduce(x) {\nx : 0 +> 1\nx : 2 -> 0\nx : 0 +> 1\nx : 1 -> 0 x : 1 -> 2 }";
    check_text(swapped, "3", {true, false});
    // {0, 1} and {2, 3}.
    check_text(
        "schedule s all_reduce(x) {\nx : 1 +> 0\nx : 3 +> 2\nx : 2 +> 0\nx : 0 -> 1 x : 0 -> 2 x : 0 -> "
        "3 }",
        "4", {false, true});
    // {1, 2} behind 0.
    check_text("schedule s all_reduce(x) { x : 2 +> 1 x : 1 +> 0 x : 0 -> 1 x : 0 -> 2 }", "3",
               {false, true});
    // {0, 2} and 1.
    check_text("schedule s all_reduce(x) { x : 2 +> 0 x : 1 +> 0 x : 0 -> 1 x : 0 -> 2 }", "3", {true, true});
}

TEST_CASE("a refusal names the step, its operands and the operator's definition") {
    const test::TemporarySchedule swapped(
        "schedule s all_reduce(x) {\nx : 0 +> 1\nx : 2 -> 0\nx : 0 +> 1\nx : 1 -> 0 x : 1 -> 2 }");
    const auto request = test::request(Collective::all_reduce, swapped.path(), "3");
    CHECK_THAT(
        refusal_of(request, false, true),
        Contains(":4:1: error: s cannot run all_reduce with operator mine, which is not said to be "
                 "commutative: on 3 ranks, rank 1 has the part of the ranks {2} on the left of that of "
                 "{0, 1}") &&
            Contains("x : 0 +> 1") && Contains(":2:1") && Contains("operator mine(a, b) associative") &&
            Contains("if mine(a, b) and mine(b, a) are alike, write 'commutative'"));
    CHECK_THAT(refusal_of(test::request(Collective::all_reduce, "ring", "4"), true, false),
               Contains("ring.sched:6:13: error: ring cannot run all_reduce with operator mine, which is not "
                        "said to be associative: on 4 ranks, rank ") &&
                   Contains("combines the part of the ranks {") && Contains("run from here") &&
                   Contains("direct combines one rank after the other"));
}

TEST_CASE("the choice is among schedules that need no more than the operator promises") {
    int number = 0;
    using enum Collective;
    for (const auto& [collective, topology] : {std::pair(all_reduce, "4"),
                                               {all_reduce, "8h"},
                                               {all_reduce, "2mx3h"},
                                               {all_reduce, "4m"},
                                               {reduce_scatter, "4"},
                                               {reduce, "8h"},
                                               {reduce, "2mx3h"}})
        for (const std::uint64_t bytes : {64, 64 << 20})
            for (const bool commutative : {false, true})
                for (const bool associative : {false, true}) {
                    if (number++ % test::in_long_form(1, 3) != 0) continue;
                    const dsl::Operator op = operator_that_is(commutative, associative);
                    auto request = test::request(collective, "", topology);
                    request.bytes = bytes;
                    const std::string any = dsl::check_schedule(request)->name();
                    request.op = &op;
                    const auto checked = dsl::check_schedule(request);
                    INFO(name_of(collective) << " on " << topology << ": " << checked->choices()[0]);
                    CHECK(dsl::order_needs_of(checked->graph()).suits(commutative, associative));
                    if (commutative && associative) CHECK(checked->name() == any);
                }
}

TEST_CASE("one planner chooses for operators of every kind, in whichever order they come") {
    dsl::Planner planner;
    const dsl::Operator neither = operator_that_is(false, false), both = operator_that_is(true, true);
    auto request = test::request(Collective::all_reduce, "", "8h");
    request.bytes = 64 << 20;
    const auto chosen = [&](const dsl::Operator* op) {
        request.op = op;
        return planner.check(request)->name();
    };
    const std::string any = chosen(nullptr), strict = chosen(&neither);
    CHECK(any != strict);
    CHECK(chosen(&both) == any);
    CHECK(chosen(&neither) == strict);
    request.op = &neither;
    CHECK_THAT(planner.check(request)->choices()[0], Contains(any) && Contains("needs a"));
}
