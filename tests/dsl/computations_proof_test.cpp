// Proofs about schedules that compute: the library's are right on many topologies; each of them, with a
// defect in one place, is refused with the matching counter-example.
#include <string>
#include <vector>

#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using Catch::Matchers::Contains;
using dsl::Collective;

namespace {

// The verdict on the library's schedule with the line `from` of its body replaced by `to`.
std::string mutant(const std::string& file, const std::string& schedule, const std::string& from,
                   const std::string& to, const std::string& topology = "2x2") {
    std::string text = library_file(file);
    const std::size_t head = text.find("schedule " + schedule + " ");
    const std::size_t body = text.find("{\n", head), end = text.find("\n}\n", body);
    const std::size_t at = text.find("\n    " + from + "\n", body);
    REQUIRE(at < end);
    text.replace(at + 5, from.size(), to);
    const TemporarySchedule changed(text);
    return error_of([&] {
        dsl::check_schedule(request(Collective::all_reduce, changed.path() + ":" + schedule, topology));
    });
}

std::string verdict(const std::string& body, const std::string& topology = "4") {
    return check_error("schedule t all_reduce(x; rate) with w approximate {\n" + body + "\n}",
                       Collective::all_reduce, topology);
}

}  // namespace

TEST_CASE("the library's schedules that compute are right wherever they can run") {
    const std::vector<std::string> any = {"1",   "2",   "3",   "5",     "8",     "2x2",
                                          "3x2", "2x3", "4x4", "2x2x2", "2x1x3", "16"};
    const std::vector<std::string> two = {"1x1", "2x1", "1x3", "2x2", "3x2", "2x3", "4x4", "8x4"};
    for (const char* const name :
         {"naive_ag", "naive_ag_lossy", "dgc(0.9)", "lars", "lars_everywhere", "lamb", "lamb_everywhere"})
        for (const std::string& topology : any) {
            INFO(name << " on " << topology);
            CHECK(error_of([&, name] {
                      dsl::check_schedule(request(Collective::all_reduce, name, topology));
                  }) == "");
        }
    for (const char* const name : {"hitopk", "hitopk(1)", "hitopk_lossy", "hitopk_lars"})
        for (const std::string& topology : two) {
            INFO(name << " on " << topology);
            CHECK(error_of([&, name] {
                      dsl::check_schedule(request(Collective::all_reduce, name, topology));
                  }) == "");
        }
    CHECK_THAT(error_of([] { dsl::check_schedule(request(Collective::all_reduce, "hitopk", "4")); }),
               Contains("hitopk(0.01) cannot run on topology 4"));
}

TEST_CASE("hitopk, got wrong in one place, is refused with a counter-example") {
    const auto hitopk = [](const std::string& from, const std::string& to) {
        return mutant("hitopk.sched", "hitopk", from, to);
    };
    const std::string gather = "all_gather s over levels[1]";
    CHECK_THAT(hitopk(gather, ""),
               Contains("rank 0 ends with chunk 0 of 2 missing the part of rank 2: it has those of {0, 1}"));
    CHECK_THAT(
        hitopk(gather, "all_gather s over levels[0]"),
        Contains(
            "rank 0 adds the selection of rank 1 to chunk 0 of 2, but not all of its elements lie there") &&
            Contains("gather selections over the levels over which x is not scattered"));
    CHECK_THAT(hitopk(gather, "all_gather s over world"), Contains("rank 0 adds the selection of rank 1"));
    CHECK_THAT(hitopk("x = sum(s)", "x = x + sum(s)"),
               Contains("rank 0 adds selections to chunk 0 of 2, which holds the parts of {0, 1} already") &&
                   Contains("x = sum(s) replaces the old values of x"));
    CHECK_THAT(hitopk("x = sum(s)", "x = sum(s) + sum(s)"),
               Contains("rank 0 adds the part of rank 0 to chunk 0 of 2 a second time") &&
                   Contains("selected here"));
    CHECK_THAT(hitopk("e = e - dense(s)", ""),
               Contains("e[0, 1/2) still holds the selected values when the start ends: the next start would "
                        "count them again") &&
                   Contains("after the selection: e = e - dense(s), or e = cleared(e, s)"));
    CHECK_THAT(hitopk("e = e + x", "e = x"),
               Contains("rank 0 overwrites e[0, 1/2), and loses its content from earlier starts"));
    CHECK_THAT(hitopk("e = e + x", ""),
               Contains("rank 0 selects from e[0, 1/2), of which no rank's input is part"));
    CHECK_THAT(hitopk("e = e - dense(s)", "e = e - dense(s)\n    e = 0.5 * e"),
               Contains("rank 0 reads e[0, 1/2), which holds the rest that s left for the next start"));
    CHECK_THAT(hitopk("e = e - dense(s)", "e = x - dense(s)"),
               Contains("takes a selection away from something else than it was made of"));
    CHECK_THAT(hitopk("e = e - dense(s)", "e = e - dense(s) - dense(s)"),
               Contains("takes a selection away from something else than it was made of"));
    CHECK_THAT(hitopk("e = e - dense(s)", "e = 0.5 * e - dense(s)"),
               Contains("takes a selection away from something else than it was made of"));
    CHECK_THAT(hitopk("e = e - dense(s)", "e = e + dense(s)"),
               Contains("rank 0 adds selections to chunk 0 of 2, which holds the parts of {0, 1} already"));
    CHECK_THAT(hitopk("reduce_scatter x over levels[0]", "reduce_scatter x over levels[1]"),
               Contains("x is not scattered over l0: there is nothing to gather"));
    CHECK_THAT(hitopk("all_gather x over levels[0]", ""),
               Contains("rank 0 ends with chunk 1 of 2") && Contains("x is still scattered over"));
    CHECK_THAT(hitopk("x = sum(s)", ""),
               Contains("rank 0 ends with chunk 0 of 2 missing the part of rank 2"));
    CHECK_THAT(hitopk("x = sum(s)", "x = dense(s)"), Contains("this selection has been gathered"));
}

TEST_CASE("naive_ag and dgc, got wrong in one place, are refused with a counter-example") {
    const auto naive = [](const std::string& from, const std::string& to) {
        return mutant("hitopk.sched", "naive_ag", from, to, "3");
    };
    CHECK_THAT(naive("all_gather s over world", ""),
               Contains("rank 0 ends with the buffer missing the part of rank 1: it has those of {0}"));
    CHECK_THAT(naive("x = sum(s)", "x = sum(s)\n    all_reduce x over world"),
               Contains("adds the part of rank 0 to") && Contains("a second time"));
    CHECK_THAT(naive("e = e - dense(s)", "e = 0 * e"), Contains("still holds the selected values"));
    CHECK_THAT(naive("x = sum(s)", "x = sum(s) - dense(s)"),
               Contains("this selection has been gathered") && Contains("before it gathers s"));
    const auto dgc = [](const std::string& from, const std::string& to) {
        return mutant("hitopk.sched", "dgc", from, to, "3");
    };
    CHECK_THAT(dgc("v = v - dense(s)", ""), Contains("v[0, 1) still holds the selected values"));
    CHECK_THAT(dgc("u = cleared(u, s)", ""), Contains("u[0, 1) still holds the selected values"));
    CHECK_THAT(dgc("u = cleared(u, s)", "u = u - dense(s)"),
               Contains("takes a selection away from something else than it was made of"));
    CHECK_THAT(dgc("v = v + u", "v = u"), Contains("overwrites v[0, 1), and loses its content"));
    CHECK_THAT(dgc("u = momentum * u + x", "u = momentum * u"), Contains("of which no rank's input is part"));
}

TEST_CASE("what a state takes in is sent, kept or in a result, unless the header says that it may be lost") {
    struct Loss {
        const char *body, *where, *text;
    };
    const Loss losses[] = {
        {"state e like x\n let s = mstopk(e, 1)\n e = e + x\n e = cleared(e, s)", ":5:",
         "clears e[0, 1) at the selected elements, but its present values are not part of the selected ones"},
        {"state u like x\n state v like x\n v = v + u\n u = 0.5 * u + x\n let s = mstopk(v, 1)\n"
         " v = v - dense(s)\n u = cleared(u, s)",
         ":8:",
         "clears u[0, 1) at the selected elements, but its present values are not part of the selected ones"},
        {"state e like x\n e = e + x\n let s = mstopk(x, 0.3)\n e = cleared(e, s)",
         ":5:", "clears e[0, 1) at the selected elements"},
        {"state e like x\n e = e + x\n let s = mstopk(e, 0.3)\n e = e - dense(s)\n e = 0",
         ":6:", "loses the old content of e[0, 1)"},
        // A condition on a value does not keep it.
        {"state e like x\n x = select(e, x, x)\n e = x\n let s = mstopk(e, 0.3)\n e = e - dense(s)",
         ":6:", "loses the old content of e[0, 1)"},
        {"state e like x\n x = x + 0 * (e != 0)\n e = x\n let s = mstopk(e, 0.3)\n e = e - dense(s)",
         ":6:", "loses the old content of e[0, 1)"},
        // A value that is added and subtracted again is not in the sum.
        {"state u like x\n state v like x\n u = u + x\n v = v + u - u\n let s = mstopk(v, 0.3)\n"
         " v = v - dense(s)\n u = cleared(u, s)",
         ":8:",
         "clears u[0, 1) at the selected elements, but its present values are not part of the selected ones"},
    };
    for (const Loss& loss : losses)
        for (const char* const topology : {"1", "2", "3", "2x2"}) {
            const std::string rest = std::string(loss.body) + "\n all_gather s over world\n x = sum(s)\n}";
            const auto said = [&](const char* header) {
                return check_error(std::string("schedule t all_reduce(x) ") + header + " {\n " + rest,
                                   Collective::all_reduce, topology);
            };
            INFO(loss.body << " on " << topology);
            CHECK(said("approximate") != "");
            if (topology != std::string("1"))
                CHECK_THAT(said("approximate"),
                           Contains(loss.where) && Contains(loss.text) && Contains("lossy"));
            if (topology != std::string("1"))
                for (const char* const header : {"approximate lossy", "lossy approximate"})
                    CHECK(said(header) == "");
        }
    // The error for a schedule without selections does not mention selections.
    const std::string kept =
        " {\n state e like x\n x = x + 0 * (e > 1)\n e = x\n all_reduce x over world\n }";
    CHECK_THAT(check_error("schedule t all_reduce(x)" + kept), Contains("loses the old content of e[0, 1)") &&
                                                                   Contains("add e to a state") &&
                                                                   !Contains("selection"));
    CHECK(check_error("schedule t all_reduce(x) lossy" + kept) == "");
    // Multiplication loses nothing.
    CHECK(check_error("schedule t all_reduce(x) { all_reduce x over world\n state m like x\n"
                      "m = 0.9 * m + x\n x = m }") == "");
}

TEST_CASE("lars and lamb, got wrong in one place, are refused with a counter-example") {
    const auto lars = [](const std::string& from, const std::string& to) {
        return mutant("lars.sched", "lars", from, to, "4");
    };
    CHECK_THAT(lars("all_gather xx over world", ""), Contains("rank 0 lacks chunk 1 of 4 in sum(xx)") &&
                                                         Contains("all_gather xx first") &&
                                                         Contains("each rank adds up its own part"));
    CHECK_THAT(lars("partition w over world", ""), Contains("rank 0 adds chunk 0 of 4 twice in sum(ww)"));
    CHECK_THAT(lars("reduce_scatter x over world", "partition x over world"),
               Contains("sum(xx) is of chunk 0 of 4 while it held the parts of {0} only") &&
                   Contains("reduce first"));
    // The sum itself is a sum, too.
    CHECK(lars("x = v", "") == "");
    CHECK_THAT(lars("x = v", "x = w"), Contains("holding a value that no rank's input is part of"));
    CHECK_THAT(lars("all_gather x over world",
                    "all_gather x over world\n    partition x over world\n"
                    "    x = 2 * x"),
               Contains("end with different values in chunk 0 of 4") &&
                   Contains("that of rank 0 went through `x = 2 * x`, that of rank 1 went through `x = v`"));
    const auto lamb = [](const std::string& from, const std::string& to) {
        return mutant("lamb.sched", "lamb", from, to, "4");
    };
    CHECK_THAT(lamb("m = beta1 * m + (1 - beta1) * x", "m = (1 - beta1) * x"),
               Contains("overwrites m[0, 1/4), and loses its content from earlier starts"));
    CHECK_THAT(lamb("all_gather ww over world", ""), Contains("rank 0 lacks chunk 1 of 4 in sum(ww)"));
    CHECK_THAT(lamb("all_gather x over world", ""), Contains("x is still scattered over"));
}

TEST_CASE("between two reductions only what is linear is done to partial sums") {
    const auto between = [](const std::string& statement) {
        return verdict("reduce_scatter x over l0\nreduce_scatter x over l1\n" + statement +
                           "\nreduce_scatter x over l2\nall_gather x over l2 all_gather x over l1 "
                           "all_gather x over l0",
                       "2x2x2");
    };
    for (const char* const linear :
         {"x = 2 * x", "x = x * w", "x = -x / 3", "x = x / w - x", "x = bfloat16(x)", "x = rate * (x + x)",
          "x = sqrt(abs(w)) * x", "x = x * max(w, 1)"}) {
        INFO(linear);
        CHECK(between(linear) == "");
    }
    for (const char* const other :
         {"x = sqrt(x)", "x = x * x", "x = x + 1", "x = x + w", "x = abs(x)", "x = max(x, 0)", "x = 1 / x",
          "x = select(w, x, w)", "x = x > 0", "x = not x", "x = x and w", "x = min(w, x)", "x = w - x"}) {
        INFO(other);
        CHECK_THAT(between(other), Contains("rank 0 has only the parts of {0, 1, 2, 3} in") &&
                                       Contains("this is no multiple of them"));
    }
    // Before the first collective, and after the last one, everything may be calculated.
    CHECK(verdict("x = sqrt(abs(x)) + 1 all_reduce x over world x = x * x") == "");
}

TEST_CASE("what all ranks have is not added to partial sums, wherever it is kept") {
    const auto between = [](const std::string& statements) {
        return verdict("state e like x\nall_reduce x over l0\n" + statements + "\nall_reduce x over l1",
                       "2x2");
    };
    for (const char* const affine :
         {"e = 0 * e + 1 x = x + e", "e = 0.5 * e + w x = x - e", "e = 0 * e + w x = select(e > 0, x, e)"}) {
        INFO(affine);
        CHECK_THAT(between(affine), Contains("the sum of all ranks' results would"));
    }
    // Multiplication by it is linear, and a state made from partial sums is a partial sum itself.
    CHECK(between("e = 0 * e + w x = x * e") == "");
    CHECK(between("e = 0.5 * e + x x = e") == "");
    CHECK(between("e = 0.5 * e + x x = x - e") == "");
    // Once the sum is complete, anything may be added.
    CHECK(verdict("state e like x all_reduce x over world e = 0 * e + 1 x = x + e") == "");
}

TEST_CASE("what no rank's input is part of cannot be combined") {
    CHECK_THAT(verdict("x = w all_reduce x over world"),
               Contains("combines") && Contains("contains no rank's input"));
    CHECK_THAT(verdict("let s = mstopk(x, 0.1) x = x - dense(s) all_reduce x over world"),
               Contains("combines") && Contains("is the rest that s left"));
    CHECK_THAT(verdict("state e like x x = e all_reduce x over world"), Contains("contains no rank's input"));
    CHECK_THAT(verdict("all_reduce x over world x = w"),
               Contains("holding a value that no rank's input is part of"));
}

TEST_CASE("ranks that hold the same part calculate it alike") {
    CHECK_THAT(verdict("all_reduce x over world partition x over world x = 2 * x"),
               Contains("end with different values in chunk 0 of 4"));
    CHECK_THAT(verdict("reduce_scatter x over l0 all_reduce x over l1 let s = mstopk(x, 0.1) x = dense(s) "
                       "all_gather x over l0",
                       "2x2"),
               Contains("rank 0 and rank 2 end with different values"));
    CHECK(
        verdict("reduce_scatter x over world let s = mstopk(x, 0.1) x = dense(s) all_gather x over world") ==
        "");
    CHECK(verdict("let y = x.part(0 of 2) y = 2 * y all_reduce x over world x : 0 -> 1") == "");
}

TEST_CASE("a statement that runs twice is not the same calculation twice") {
    // In the second turn each rank multiplies its own part once more, by another number.
    CHECK_THAT(verdict("all_reduce x over world\nstate b like x\nb = 0 * b + x\n"
                       "for i in 0 ..< 2 { x = b * (i + 1) partition x over levels[i] }",
                       "2x2"),
               Contains("end with different values") &&
                   Contains("both went through `x = b * (i + 1)`, but not with the same numbers"));
    CHECK_THAT(
        verdict("all_reduce x over world\nfor i in 0 ..< 2 { x = 2 * x partition x over levels[i] }", "2x2"),
        Contains("end with different values"));
    CHECK(verdict("all_reduce x over world\nfor i in 0 ..< 3 { x = x * (i + 1) }", "2x2") == "");
}

TEST_CASE("what a state keeps of one rank is not taken for what all ranks have") {
    // e is the rank's own x of the start before, f that of two starts before.
    CHECK_THAT(
        verdict("state e like x state f like x\nf = 0 * f + e\ne = 0 * e + x\nall_reduce x over world\n"
                "x = x + f"),
        Contains("rank 0 calculates the buffer from values with different contributions: those of "
                 "{0, 1, 2, 3} and those of {0}"));
    CHECK_THAT(verdict("state e like x\nlet n = total(e * e)\ne = e + x\nall_reduce x over world\n"
                       "x = x * sum(n)"),
               Contains("sum(n) is of the buffer while it held the parts of {0} only"));
    // The same with values that all ranks have.
    CHECK(verdict("state e like x\nlet n = total(e * e)\nall_reduce x over world\ne = e + x\n"
                  "x = x * sum(n)") == "");
    CHECK(verdict("state e like x state f like x\nall_reduce x over world\nf = 0.5 * f + e\ne = 0.5 * e + x\n"
                  "x = x + f") == "");
    // Ranks select different elements of those that tie, so their rests differ, too.
    CHECK_THAT(verdict("all_reduce x over world state e like x state u like x\nu = 0.5 * u + e\n"
                       "e = e + x let s = mstopk(e, 0.1) e = e - dense(s)\nx = x + u"),
               Contains("holds values that an earlier start has sent already: they would count again"));
}

TEST_CASE("a state is left alike on all ranks, and the same wherever the same contributions are in it") {
    const std::string differs =
        "that were not calculated alike: both went through `e = x`, but not with the same "
        "numbers, or in another order";
    // The ranks of a host keep the sums of the host, one of them doubled; f brings x back.
    CHECK_THAT(
        verdict("state e like x state f like x\nall_reduce x over l0\nx = x + e + 0 * f\nf = x\n"
                "let z = x.part(0 of 1) partition z over l0 z = 2 * z\ne = x\nx = f\nall_reduce x over l1",
                "2x2"),
        Contains("rank 0 and rank 1 keep values in e[0, 1/2) " + differs));
    CHECK_THAT(
        check_error("schedule t broadcast(x, root) {\nbroadcast x over world from root\nstate e like x state "
                    "f like x\n"
                    "x = x + e + 0 * f\nf = x\nlet z = x.part(0 of 1) partition z over world z = 2 * z\n"
                    "e = x\nx = f\n}",
                    Collective::broadcast, "2"),
        Contains("keep values in e[0, 1/2) " + differs));
    // One rank has the whole sum before the others, so the sum is not a value of all ranks.
    CHECK_THAT(verdict("x : 2 +> 3\nx : 0 -> 2\nx : 1 -> 0\nstate e like x\nx = x + e\n"
                       "each r in 2 ..< 4  x : r +> 0\ne = x\neach r in 2 ..< 4  x : r +> 1\n"
                       "each r in 2 ..< 4  x : 0 -> r"),
               Contains("from values with different contributions: those of {1} and those of {0, 1, 2, 3}"));
}

TEST_CASE("sums that were added in different orders are not calculated with as if they were the same") {
    // (0 + 1) + (2 + 3) on ranks 0 and 1, 0 + (1 + (2 + 3)) on the others.
    const std::string sums =
        "x : 2 +> 3\nx : 1 -> 2\nx : 0 +> 1\nx : 3 +> 1\nx : 3 +> 2\nx : 2 -> 3\n"
        "x : 0 +> 3\nx : 1 -> 0\nx : 3 -> 2\n";
    CHECK_THAT(verdict(sums + "x = select(x > 1, 1, 0 - 1)"),
               Contains("rank 0 and rank 2 end with different values in the buffer: both went through") &&
                   Contains("but not with the same numbers, or in another order"));
    // The kept values differ, too, although rank 0 gives all ranks the same result.
    CHECK_THAT(verdict("state e like x\n" + sums + "e = 0.5 * e + x\nbroadcast x over world from 0"),
               Contains("rank 0 and rank 2 keep values in e[0, 1) that were not calculated alike"));
    // All at once, each rank adds in the order of ranks; and two operands may change places.
    CHECK(verdict("all_reduce x over world using exchange x = select(x > 1, 1, 0 - 1)", "5") == "");
    CHECK(verdict("all_reduce x over world using butterfly x = select(x > 1, 1, 0 - 1)", "8") == "");
}

TEST_CASE("what was sent is not kept, by whatever way it would count again") {
    const std::string again =
        "which holds values that an earlier start has sent already: they would count again";
    // Rank 0 selects from values that rank 1 also keeps.
    CHECK_THAT(
        verdict("state e like x\nx = x + e\ne = x\nreduce_scatter x over world\nlet s = mstopk(x, 0.5)\n"
                "e = cleared(e, s)\nx = sum(s)\nall_gather x over world",
                "2"),
        Contains("rank 0 selects from chunk 0 of 2, " + again));
    // The ranks of a host keep the same sum, and each takes out its own selection.
    CHECK_THAT(verdict("state u like x\nall_reduce x over l0\nx = x + u\nlet s = mstopk(x, 0.5)\n"
                       "all_reduce x over l1\nu = x\nu = cleared(u, s)",
                       "2x2"),
               Contains(again));
    // An average that goes nowhere may keep anything.
    CHECK(verdict("state m like x state e like x\nm = 0.9 * m + 0.1 * x\ne = e + x\nlet s = mstopk(e, 0.1)\n"
                  "e = e - dense(s)\nall_gather s over world x = sum(s)") == "");
}

TEST_CASE("what a state brings from the start before may be all that is combined, or selected from") {
    CHECK(
        verdict(
            "state e like x state g like x\ng = 0 * g + e\ne = 0 * e + x\nx = g\nall_reduce x over world") ==
        "");
    CHECK(
        verdict("state e like x state d like x\ne = e + d\nlet s = mstopk(e, 0.1)\ne = e - dense(s)\nd = x\n"
                "all_gather s over world x = sum(s)") == "");
    // A state that is never written has no contributions in any start.
    CHECK_THAT(
        verdict(
            "state e like x\nlet s = mstopk(e, 0.1)\ne = e - dense(s)\nall_gather s over world x = sum(s)"),
        Contains("rank 0 selects from e[0, 1), of which no rank's input is part"));
}

TEST_CASE("what is sent counts once, also by way of other states") {
    const std::string again =
        "which holds values that an earlier start has sent already: they would count again";
    // The sum of the sent values comes back.
    CHECK_THAT(
        verdict(
            "reduce_scatter x over world state g like x state m like x\nx = x + g\nlet s = mstopk(x, 0.5)\n"
            "g = g + m\ng = cleared(g, s)\nx = sum(s)\nm = 0 * m + x\nall_gather x over world"),
        Contains(again));
    // It goes from state to state, and comes back three starts later.
    CHECK_THAT(verdict("state e like x state f like x state g like x state h like x\ne = e + x + h\n"
                       "let s = mstopk(e, 0.5)\ne = e - dense(s)\nh = 0 * h + g + 0 * x\nh = cleared(h, s)\n"
                       "g = 0 * g + f\nf = 0 * f + x\nf = cleared(f, s)\nall_gather s over world x = sum(s)"),
               Contains(again));
}

TEST_CASE("what ranks keep together can be told") {
    CHECK_THAT(verdict("each r in 0 ..< 1 { x : 0 +> 1 x : 1 -> 0 }\nx : 2 +> 0\nx : 3 +> 2\nstate m like x\n"
                       "m = 0.5 * m + x\nx = m\nx : 1 +> 2\nx : 2 -> 0\nx : 2 -> 1\nx : 2 -> 3"),
               Contains("keeps the parts of {0, 1} in m, and other ranks keep some of these and others"));
}

TEST_CASE("what is left of a selection goes to a state that is in it") {
    CHECK_THAT(verdict("state e like x\ne = e + x\nlet s = mstopk(e, 0.25)\ne = cleared(x, s)\n"
                       "all_gather s over world x = sum(s)"),
               Contains("overwrites e[0, 1), and loses its content from earlier starts: the rest that the "
                        "selection leaves has none of it"));
    CHECK(verdict("state e like x\nx = x + e\nlet s = mstopk(x, 0.25)\ne = x - dense(s)\n"
                  "all_gather s over world x = sum(s)") == "");
}

namespace {

// Describes the parts of the first state that each rank holds: their place, the rank that holds the same, and
// if they are counted and take the total.
std::vector<std::string> holdings(const std::string& schedule, const std::string& topology,
                                  Collective collective = Collective::all_reduce) {
    const TemporarySchedule file(schedule);
    const auto program = dsl::check_schedule(request(collective, file.path(), topology))->project(0);
    std::vector<std::string> all;
    for (const auto& of_rank : program.extras[0].holdings) {
        std::string& text = all.emplace_back();
        for (const dsl::Holding& one : of_rank)
            text += (text.empty() ? "" : ", ") + dsl::text_of({one.where}) + " like " +
                    std::to_string(one.like) + (one.is_counted ? " counted" : "") +
                    (one.takes_total ? " takes" : "");
    }
    return all;
}

}  // namespace

TEST_CASE("the proof knows which ranks hold the same of a state, and counts it once") {
    using Texts = std::vector<std::string>;
    const std::string keep = "state m like x m = 0.5 * m + x x = m\n";
    const std::string momentum = "schedule t all_reduce(x) {\nall_reduce x over levels[0]\n" + keep +
                                 "all_reduce x over levels[1]\n}\n";
    const std::string first = "[0, 1) like 0 counted takes", same = "[0, 1) like 0 takes";
    CHECK(holdings(momentum, "2x2") == Texts{first, same, "[0, 1) like 2 counted", "[0, 1) like 2"});
    CHECK(holdings(momentum, "3x1") == Texts{first, same, same});
    CHECK(holdings(momentum, "1x3") == Texts{first, "[0, 1) like 1 counted", "[0, 1) like 2 counted"});
    const std::string moved = "(x) {\nall_gather x over world\n" + keep + "}\n";
    CHECK(holdings("schedule t all_gather" + moved, "3", Collective::all_gather) == Texts{first, same, same});
    CHECK(holdings("schedule t reduce_scatter(x) {\nreduce_scatter x over world\n" + keep + "}\n", "2",
                   Collective::reduce_scatter) ==
          Texts{"[0, 1/2) like 0 counted takes", "[1/2, 1) like 1 counted takes"});
    CHECK(holdings("schedule t all_reduce(x) {\n" + keep + "all_reduce x over world\n}\n", "2") ==
          Texts{first, "[0, 1) like 1 counted"});
    // Only the part of rank 0, on rank 0; with the others', on rank 2.
    CHECK(holdings(
              "schedule t all_reduce(x) {\nx : 0 +> 2\n" + keep + "x : 1 +> 2\nx : 2 -> 0\nx : 2 -> 1\n}\n",
              "3") == Texts{same, "[0, 1) like 1 counted", "[0, 1) like 2 counted takes"});
}

TEST_CASE("a state is read before it is overwritten, all of it") {
    CHECK_THAT(verdict("all_reduce x over world state e like x e = x"),
               Contains("rank 0 overwrites e[0, 1), and loses its content from earlier starts"));
    CHECK_THAT(verdict("all_reduce x over world state e like x e = x x = x + e"),
               Contains("overwrites e[0, 1)"));
    CHECK_THAT(verdict("all_reduce x over world state e like x let y = x.part(0 of 2) y = y + e e = 0"),
               Contains("overwrites e[1/2, 1)"));
    CHECK(verdict("all_reduce x over world state e like x x = x + e e = 0") == "");
}

TEST_CASE("selections are taken from one thing, and added once") {
    CHECK_THAT(verdict("let s = mstopk(x, 0.1) x = 2 * x - dense(s) all_reduce x over world"),
               Contains("takes a selection away from something else than it was made of"));
    const std::string one = "let s = mstopk(x, 0.1) all_gather s over world\n";
    CHECK_THAT(verdict(one + "x = sum(s) + sum(s)"), Contains("a second time"));
    CHECK(verdict(one + "x = sum(s)") == "");

    // Each contribution enters one selection.
    const std::string two = "let s = mstopk(x, 0.1) let t = mstopk(x, 0.1) all_gather t over world\n";
    CHECK_THAT(verdict(two + "x = sum(t)"),
               Contains("rank 0 selects from the buffer, of which rank 0 has selected already"));
    CHECK_THAT(verdict("let s = mstopk(x, 1)\neach r in world x : r -> r xor 1\nx = 3 * x\n"
                       "let t = mstopk(x, 1) x = sum(s) + sum(t) x : 0 -> 1",
                       "2"),
               Contains("of which rank 1 has selected already"));
    CHECK(verdict("let y = x.part(0 of 2) let z = x.part(1 of 2)\n"
                  "let s = mstopk(y, 0.1) let t = mstopk(z, 0.1) all_gather s over world\n"
                  "all_gather t over world y = sum(s) z = sum(t)") == "");

    // The selected values of all ranks are in the result.
    CHECK_THAT(verdict("let s = mstopk(x, 0.5) all_reduce x over world", "2"),
               Contains("the selection of rank 0 is not in the result of rank 0") && Contains("x = sum(s)"));
    const std::string kept =
        "state e like x state f like x f = 0 * f + e e = 0 * e + x let s = mstopk(e, 0.5) e = e - dense(s)\n";
    CHECK_THAT(verdict(kept + "x = f all_reduce x over world", "2"),
               Contains("the selection of rank 0 is not in"));
    CHECK(verdict("let s = mstopk(x, 0.5) x = dense(s) all_reduce x over world", "2") == "");

    // A schedule must not select from values that contain selections.
    CHECK_THAT(
        verdict("let s = mstopk(x, 0.5) all_gather s over world x = sum(s)\n"
                "let t = mstopk(x, 0.5) x = dense(t) broadcast x over world from 0"),
        Contains("rank 0 selects from the buffer, which selections were added to") && Contains("x = sum(s)"));
    CHECK_THAT(verdict("let s = mstopk(x, 0.5) all_gather s over world x = sum(s) x = 2 * x\n"
                       "let t = mstopk(x, 0.5) x = dense(t) broadcast x over world from 0"),
               Contains("which selections were added to"));

    // Each rank takes out its own selection.
    CHECK_THAT(
        verdict("state e like x e = e + x let s = mstopk(e, 0.1) x = dense(s) all_gather s over world\n"
                "e = e - sum(s) all_reduce x over world"),
        Contains("the sum of selections can only be added") && Contains("dense(s)"));

    // Selections of differently calculated values are as little alike as the values.
    CHECK_THAT(verdict("let z = x.part(0 of 1) partition z over world z = 2 * z\n"
                       "let s = mstopk(x, 1.0) all_gather s over world x = sum(s)"),
               Contains("that were not made of values calculated alike") && Contains("`z = 2 * z`") &&
                   Contains("is as it was in the input"));
    CHECK(verdict("x = 2 * x let s = mstopk(x, 1.0) all_gather s over world x = sum(s)") == "");
}

TEST_CASE("what has moved to other places is not calculated with, whichever comes first") {
    const std::string turn = "each c in 0 ..< ranks  x[c] : 0 -> x[c + 1] : 0\n";
    const auto refusal = [&](const std::string& body) {
        return check_error("schedule t reduce_scatter(x) {\n" + body + "\n}", Collective::reduce_scatter,
                           "2");
    };
    CHECK_THAT(refusal("all_reduce x over world\n" + turn + "state e like x e = 0 * e + x x : 1 -> 0 x = e"),
               Contains("a schedule cannot both move data to other places and compute"));
    CHECK_THAT(refusal("all_reduce x over world state e like x e = 0 * e + x\n" + turn + "x : 1 -> 0 x = e"),
               Contains("a schedule cannot both move data to other places and compute"));
}

TEST_CASE("the largest value is of all of x, before or after it is reduced") {
    const std::string scale = "let m = largest(abs(x))\n", use = "x = x / max(m)\nall_reduce x over world";
    // A scale for all ranks' inputs, of which each has its own.
    CHECK(verdict(scale + "all_gather m over world\n" + use) == "");
    CHECK(verdict(scale + "all_gather m over l0\nall_gather m over l1\n" + use, "2x3") == "");
    CHECK_THAT(verdict(scale + use), Contains("rank 0 lacks the part of rank 1 of the buffer in max(m)") &&
                                         Contains("all_gather m first"));
    CHECK_THAT(verdict(scale + "all_gather m over l0\n" + use, "2x2"),
               Contains("rank 0 lacks the part of rank 2 of the buffer in max(m)"));
    // A part that is found twice changes nothing.
    CHECK(verdict("all_reduce x over world\n" + scale + "x = x / max(m)") == "");
    CHECK(verdict("all_reduce x over world\n" + scale + "all_gather m over world\nx = x / max(m)") == "");
    CHECK(verdict("reduce_scatter x over world\n" + scale +
                  "all_gather m over world\nx = x / max(m)\nall_gather x over world") == "");
    CHECK_THAT(verdict("reduce_scatter x over world\n" + scale + "x = x / max(m)\nall_gather x over world"),
               Contains("rank 0 lacks chunk 1 of 4 in max(m)"));
    // Sums of a host's ranks, and then those of all hosts.
    CHECK(verdict("all_reduce x over l0\n" + scale + "all_gather m over l1\nx = x / max(m)\n" +
                      "all_reduce x over l1",
                  "2x2") == "");
}

TEST_CASE("sums are of all of x, once, and calculated alike") {
    CHECK_THAT(verdict("all_reduce x over world let n = total(x) all_gather n over world x = x * sum(n)"),
               Contains("rank 0 adds the buffer twice in sum(n)"));
    CHECK_THAT(verdict("reduce_scatter x over l0 all_reduce x over l1 let n = total(x) all_gather n over l1 "
                       "x = x * sum(n) all_gather x over l0",
                       "2x2"),
               Contains("rank 0 adds chunk 0 of 2 twice in sum(n)"));
    CHECK_THAT(verdict("let n = total(x) all_reduce x over world x = x * sum(n)"),
               Contains("while it held the parts of {0} only"));
    CHECK_THAT(verdict("all_reduce x over world let y = x.part(0 of 2) let n = total(y) x = x * sum(n)"),
               Contains("rank 0 lacks chunk 1 of 2 in sum(n)"));
    // One host's x[0] is another place than another host's, so the sums differ in every later use.
    CHECK_THAT(
        verdict("all_reduce x over world state v like x v = 0.5 * v + x partition x over l0\nx = 2 * x\n"
                "x[0] : 1 -> 0\nlet n = total(x) all_gather n over l0 all_gather x over l0\n"
                "x = v * sum(n)",
                "2x2"),
        Contains("end with different values"));
}

TEST_CASE("parallel strands that compute must not touch each other's places") {
    const auto strands = [](const std::string& body) {
        return verdict("state e like x parallel t in 0 ..< 2 { let y = x.part(t of 2)\n" + body + " }");
    };
    CHECK(strands("all_reduce y over world y = 2 * y") == "");
    CHECK(strands("state f like y y = y + f all_reduce y over world f = 0.5 * f") == "");
    CHECK_THAT(strands("all_reduce y over world x = 2 * x"), Contains("a parallel strand"));
    CHECK_THAT(strands("all_reduce y over world e = e + 1"),
               Contains("this strand") && Contains("e[") && Contains("which a parallel strand"));
    CHECK_THAT(strands("let n = total(x) all_reduce y over world"), Contains("which a parallel strand"));
    // Both may read the same.
    CHECK(strands("all_reduce y over world y = y + w") == "");
}

TEST_CASE("copies of what all ranks have are known for sent, once it was selected") {
    const auto delayed = [](const std::string& update) {
        return verdict("reduce_scatter x over world state e like x state f like x state g like x\n" + update +
                           "let s = mstopk(e, 0.25) e = e - dense(s) x = sum(s) all_gather x over world",
                       "2");
    };
    CHECK_THAT(delayed("x = x + g g = f f = e e = e + x\n"),
               Contains("which holds values that an earlier start has sent"));
    CHECK(delayed("g = 0 * g f = 0 * f e = e + x\n") == "");
}

TEST_CASE("what all ranks have is added to sums of all ranks alone, not to the parts of some") {
    const std::string by_level = "state m like x let s = mstopk(x, 1) all_gather s over levels[1]\n";
    CHECK_THAT(verdict(by_level + "x = m + sum(s) all_reduce x over levels[0] m = 0 * m + x", "2x2"),
               Contains("adds the parts of {0, 2} to the content of a state") && Contains("several times"));
    CHECK_THAT(verdict(by_level + "x = 1 + sum(s) all_reduce x over levels[0] m = 0 * m + x", "2x2"),
               Contains("to values that all ranks have"));
    CHECK(verdict(by_level + "x = sum(s) all_reduce x over levels[0] x = x + m m = 0 * m + x", "2x2") == "");
    CHECK(verdict("state m like x let s = mstopk(x, 1) all_gather s over world x = m + sum(s) m = 0 * m + x",
                  "2x2") == "");
}

TEST_CASE("ranks calculate alike with sums only if these are the same, bit for bit") {
    // The ranks have added up x in two orders.
    const std::string sum =
        "state e like x e = 0 * e + x x : 0 +> 1 each i in 0 ..< 1 { x : 1 +> 2 x : 2 +> 3 x : 3 -> 0 }\n"
        "each i in 0 ..< 1 { x : 0 +> 2 x : 1 +> 3 } each i in 0 ..< 1 { x : 2 -> 0 x : 3 -> 1 }\n";
    CHECK_THAT(verdict(sum + "let n = total(x) x = e * select(sum(n) > 1, 1, 0) all_reduce x over world"),
               Contains("they were not calculated alike"));
    CHECK(verdict(sum + "broadcast x over world from 0\n"
                        "let n = total(x) x = e * select(sum(n) > 1, 1, 0) all_reduce x over world") == "");
}

TEST_CASE("a state that some ranks have complete, and others in parts, is not brought to other ranks") {
    CHECK_THAT(verdict("state e like x x : 0 +> 1 each i in 0 ..< 1 { x : 2 +> 1 x : 1 -> 2 }\n"
                       "e = 0 * e + x x : 1 -> 0 x : 1 -> 2",
                       "3"),
               Contains("keeps values of all ranks in e"));
}
