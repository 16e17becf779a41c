// Parsing of statements that compute, and errors before the proof.
#include <string>

#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using dsl::Collective;

namespace {

// The compiler's refusal of a schedule with this body; the schedule may select, and has a further buffer w
// and a parameter that each start gives.
std::string refusal(const std::string& body, const std::string& topology = "4") {
    return check_error("schedule t all_reduce(x; rate) with w approximate {\n" + body + "\n}",
                       Collective::all_reduce, topology);
}

}  // namespace

TEST_CASE("if chooses what is computed when the schedule is laid out, not for each element") {
    CHECK(refusal("all_reduce x over world using exchange x = if ranks == 4 then x / 2 else sqrt(s)") == "");
    CHECK(refusal("let s = mstopk(x, if ranks == 4 then 0.5 else 0) x = dense(s) "
                  "all_reduce x over world using exchange") == "");
    CHECK(refusal("let s = mstopk(x, 0.5) x = if ranks > 3 then dense(s) else x "
                  "all_reduce x over world using exchange") == "");
    CHECK_THAT(refusal("x = if x > 0 then x else 0 - x"), Contains("2:8: error: expected a number, but this "
                                                                   "is a buffer") &&
                                                              Contains("select(condition, a, b)"));
    CHECK_THAT(refusal("x = if rate > 0 then x else w"), Contains("not known before the start"));
    CHECK_THAT(refusal("x = x << 1"), Contains("'<<' cannot be calculated for each element"));
    CHECK_THAT(refusal("x = x | 1"), Contains("'|' cannot be calculated for each element"));
}

TEST_CASE("statements that compute are read and printed as what they are") {
    CHECK(printed("schedule s all_reduce(x; a = 0.5, density) with w, u approximate where world.size > 1 {\n"
                  "  partition w over (p, q)\n"
                  "  state e like x\n"
                  "  e = 1e-3 * e + x / 2.5e+10 - dense(s) + -w\n"
                  "  all_gather x over l using ring as int8(8*i) keeping e\n"
                  "  let s = mstopk(e, density)\n"
                  "  x = select(abs(x) > 1 and not (w == 0), max(x, -8), bfloat16(sum(n)))\n"
                  "}") ==
          "   1:1   schedule s all_reduce(x; a = 0.5, density) with w, u approximate where (world.size > 1)\n"
          "   2:3     partition w over (p, q)\n"
          "   3:3     state e like x\n"
          "   4:3     e = ((((0.001 * e) + (x / 25000000000)) - dense(s)) + (- w))\n"
          "   5:3     all_gather x over l using ring as int8((8 * i)) keeping e\n"
          "   6:3     let s = mstopk(e, density)\n"
          "   7:3     x = select(((abs(x) > 1) and (not (w == 0))), max(x, (- 8)), bfloat16(sum(n)))\n");
}

TEST_CASE("numbers with a point or an exponent are read to the last bit, and others stay whole") {
    const auto value = [](const std::string& number) {
        const dsl::SourceFile file{"t.sched", "schedule s all_reduce(x) { x = " + number + " }"};
        const dsl::ast::File tree = dsl::parse(file);
        return std::get<dsl::ast::Assign>(tree.schedules[0].body[0].node).value;
    };
    CHECK(value("0.1").real == 0.1);
    CHECK(value("1e3").real == 1000);
    CHECK(value("1E+3").real == 1000);
    CHECK(value("2.5e-300").real == 2.5e-300);
    CHECK(value("0.1").kind == dsl::ast::Expression::Kind::real);
    CHECK(value("10").kind == dsl::ast::Expression::Kind::integer);
    CHECK_THAT(parse_error("schedule s all_reduce(x) { x = 1e999 }"),
               StartsWith("t.sched:1:32: error: this number is out of range") &&
                   Contains("x = 1e999 }\n      |                                ^~~~~\n") &&
                   Contains("between 1e-307 and 1e308"));
    for (const char* const wrong : {"1.", ".5", "1e", "1.5x", "1.5.5", "1e+"}) {
        INFO(wrong);
        CHECK(parse_error(std::string("schedule s all_reduce(x) { x = ") + wrong + " }") != "");
    }
    // `0..` begins a range, not a fraction.
    CHECK(parse_error("schedule s all_reduce(x) { for i in 0..<2 { x = 1 } }") == "");
}

TEST_CASE("the words of computations are reserved, and their functions are not") {
    for (const char* const word :
         {"state", "operator", "approximate", "lossy", "with", "like", "partition", "as", "keeping"}) {
        INFO(word);
        CHECK_THAT(parse_error(std::string("schedule s all_reduce(") + word + ") { }"),
                   Contains("expected a name here"));
        CHECK_THAT(parse_error(std::string("schedule s all_reduce(x) { let ") + word + " = 1 }"),
                   Contains("expected a name here"));
        CHECK(parse_error(std::string("schedule s all_reduce(x) { let ") + word + "s = 1 }") == "");
    }
    for (const char* const name :
         {"mstopk", "total", "largest", "sum", "dense", "select", "max", "density"}) {
        INFO(name);
        CHECK(check_error(std::string("schedule s all_reduce(") + name + ") { all_reduce " + name +
                          " over world " + name + " = 2 * " + name + " }") == "");
    }
}

TEST_CASE("what is missing in a statement that computes is told with its place") {
    const auto error = [](const std::string& body) {
        return parse_error("schedule s all_reduce(x) {\n  " + body + "\n}");
    };
    CHECK(error("state e x") ==
          "t.sched:2:11: error: expected 'like' here\n"
          "    2 |   state e x\n"
          "      |           ^");
    CHECK_THAT(error("state like x"), StartsWith("t.sched:2:9: error: expected a name here"));
    CHECK(error("partition x world") ==
          "t.sched:2:15: error: expected 'over' here\n"
          "    2 |   partition x world\n"
          "      |               ^");
    CHECK_THAT(error("x = "), StartsWith("t.sched:2:5: error: the value behind this '=' is missing"));
    CHECK_THAT(error("x = y +"), StartsWith("t.sched:3:1: error: expected an expression here"));
    CHECK_THAT(error("x = sqrt(x"), StartsWith("t.sched:3:1: error: expected ')' here"));
    CHECK_THAT(error("x == y"), StartsWith("t.sched:2:5: error: expected ':' here"));
    CHECK_THAT(error("x[0] = 2"), StartsWith("t.sched:2:8: error: expected ':' here"));
    CHECK_THAT(parse_error("schedule s all_reduce(x) with { }"),
               StartsWith("t.sched:1:31: error: expected a name here"));
    CHECK_THAT(parse_error("schedule s all_reduce(x) approximate with w { }"),
               StartsWith("t.sched:1:38: error: expected "));
    CHECK_THAT(parse_error("schedule s all_reduce(x; 2) { }"),
               StartsWith("t.sched:1:26: error: expected a parameter here"));
    CHECK_THAT(parse_error("topology t(n) { level a[n] { } }"), Contains("expected '=' here"));
}

TEST_CASE("what is no expression over elements is refused where it stands") {
    CHECK_THAT(refusal("x = x[0] + 1"), Contains("this cannot be calculated for each element") &&
                                            Contains(":2:5:") && Contains("^~~~\n"));
    CHECK_THAT(refusal("x = x ** 2"),
               Contains("'**' cannot be calculated for each element") && Contains("hint: write x * x"));
    CHECK_THAT(refusal("x = x mod 2"), Contains("'mod' cannot be calculated for each element"));
    CHECK_THAT(refusal("x = x xor w"), Contains("'xor' cannot be calculated for each element"));
    CHECK_THAT(refusal("x = cube(x)"),
               Contains("there is no function 'cube' of elements") && Contains("select(condition, a, b)"));
    CHECK_THAT(refusal("x = sqrt(x, w)"), Contains("sqrt takes 1 argument, not 2"));
    CHECK_THAT(refusal("x = max(x)"), Contains("max takes 2 arguments, or a number that largest made"));
    CHECK_THAT(refusal("x = select(x, w)"), Contains("select takes 3 arguments, not 2"));
    CHECK_THAT(refusal("x = x + nothing"), Contains("'nothing' is not known here"));
    CHECK_THAT(refusal("x = x * world"), Contains("expected a buffer, but this is a group"));
    CHECK_THAT(refusal("world = x"), Contains("expected a buffer, but this is a group") && Contains(":2:1:"));
    CHECK_THAT(refusal("rate = x"), Contains("expected a buffer, but this is"));
    CHECK_THAT(refusal("w = x"), Contains("w belongs to the caller and can only be read"));
}

TEST_CASE("selections and sums stand only where they mean something") {
    const std::string select = "let s = mstopk(x, 0.1)\n", sums = "let n = total(x)\n";
    CHECK_THAT(refusal(select + "x = 2 * s"), Contains("s is a selection, not a value for each element") &&
                                                  Contains("dense(s) or sum(s) can be added"));
    CHECK_THAT(refusal(select + "x = 2 * dense(s)"), Contains("dense cannot stand inside an expression"));
    CHECK_THAT(refusal(select + "x = 2 * sum(s)"),
               Contains("the sum of selections cannot stand inside an expression"));
    CHECK_THAT(refusal(select + "x = w + cleared(x, s)"), Contains("cleared cannot stand inside"));
    CHECK_THAT(refusal("x = mstopk(x, 0.1)"), Contains("mstopk cannot stand inside an expression"));
    CHECK_THAT(refusal("x = x / total(x)"), Contains("total cannot stand inside an expression"));
    CHECK_THAT(refusal("x = dense(w)"), Contains("expected a selection here"));
    CHECK_THAT(refusal("x = sum(w)"), Contains("expected a selection here"));
    CHECK_THAT(refusal("x = dense(3)"), Contains("expected a buffer, but this is a number"));
    CHECK_THAT(refusal(select + "x = dense(s, s)"), Contains("dense takes 1 argument, not 2"));
    CHECK_THAT(refusal("x = cleared(x, w)"), Contains("expected a selection here"));
    CHECK_THAT(refusal("x = cleared(x)"), Contains("cleared takes 2 arguments, not 1"));
    CHECK_THAT(refusal(sums + "x = n * x"),
               Contains("n holds parts of numbers, not one") && Contains("write sum(n)"));
    CHECK_THAT(refusal("let n = largest(x)\nx = n * x"), Contains("write max(n)"));
    CHECK_THAT(refusal("let n = largest(x)\nx = sum(n) * x"),
               Contains("largest made n, of whose parts there is no sum") && Contains("write max(n)"));
    CHECK_THAT(refusal("let n = total(x)\nx = max(n) * x"), Contains("write sum(n)"));
    CHECK_THAT(refusal("x = x * max(2)"), Contains("max takes 2 arguments, not 1"));
    CHECK_THAT(refusal("let n = largest(x, w)"),
               Contains("largest takes 1 argument: the expression whose largest value is wanted"));
    CHECK_THAT(refusal("let n = largest(1)"), Contains("this has no elements: no buffer is named"));
    CHECK_THAT(refusal("x = largest(x)"), Contains("largest cannot stand inside an expression"));
    CHECK_THAT(refusal(sums + "x = dense(n)"), Contains("expected a selection here"));
    CHECK_THAT(refusal(sums + "state e like n"),
               Contains("expected a buffer like x, but this is a list of sums"));
    CHECK_THAT(refusal(select + "let t = mstopk(s, 0.5)"),
               Contains("expected a buffer like x, but this is a selection"));
    CHECK_THAT(refusal(select + "s = x"), Contains("expected a buffer like x, but this is a selection"));
    CHECK_THAT(refusal(select + "all_gather s over world x = dense(s)"),
               Contains("this selection has been gathered: it is of several ranks"));
}

TEST_CASE("a selection needs a buffer, a density and a schedule that may lose something") {
    CHECK_THAT(refusal("let s = mstopk(x)"), Contains("mstopk takes 2 arguments: a buffer and the density"));
    CHECK_THAT(
        refusal("let s = mstopk(2 * x, 0.5)"),
        Contains("mstopk selects from a buffer, not from an expression") && Contains("calculate it first"));
    CHECK_THAT(refusal("let s = mstopk(x, 1.5)"), Contains("the density is 1.5: it must be from 0 to 1"));
    CHECK_THAT(refusal("let s = mstopk(x, 2)"), Contains("the density is 2: it must be from 0 to 1"));
    CHECK_THAT(refusal("let s = mstopk(x, world)"), Contains("expected a density, but this is a group"));
    CHECK_THAT(refusal("let s = mstopk(x, x)"), Contains("expected a density, but this is"));
    CHECK_THAT(check_error("schedule t all_reduce(x) { let s = mstopk(x, 0.5) all_gather s over world x = "
                           "sum(s) }"),
               Contains("a selection leaves out all other elements") &&
                   Contains("schedule NAME all_reduce(x) approximate"));
    CHECK_THAT(refusal("let n = total(x, w)"), Contains("total takes 1 argument: the expression to add up"));
    CHECK_THAT(refusal("let n = total(1)"), Contains("this adds up nothing: no buffer is named"));
    const auto density = [](const std::string& number) {
        return refusal("let s = mstopk(x, " + number + ") all_gather s over world x = sum(s)");
    };
    for (const char* const right : {"0", "1", "0.5", "1.0", "rate"}) CHECK(density(right) == "");
}

TEST_CASE("buffers of a computation lie alike, in one stretch where that is needed, and on all ranks") {
    CHECK(refusal("reduce_scatter x over world x = x + w all_gather x over world") == "");
    CHECK_THAT(refusal("partition w over world all_reduce x over world x = x + w"),
               Contains("rank 0 has [0, 1/4) of this buffer here, but [0, 1) is calculated") &&
                   Contains("must be scattered alike"));
    CHECK_THAT(refusal("state e like x reduce_scatter x over world e = e + x all_gather x over world"),
               Contains("of this buffer here, but") && Contains("is calculated"));
    for (const char* const needs_one : {"let s = mstopk(x, 0.1)", "state e like x", "let n = total(x)"})
        CHECK_THAT(
            refusal(std::string("reduce_scatter x over l1 reduce_scatter x over l0 all_gather x over l1 ") +
                        needs_one,
                    "2x2"),
            Contains("rank 0 holds several stretches here: [0, 1/4) + [1/2, 3/4)") &&
                Contains("scatter the buffer over the outermost of the levels first"));
    CHECK_THAT(refusal("reduce x over world to 0 x = 2 * x broadcast x over world from 0"),
               Contains("the data of this buffer are with some of the ranks only") &&
                   Contains("broadcast or scatter the data first"));
    CHECK_THAT(refusal("reduce x over world to 0 state e like x"), Contains("with some of the ranks only"));
    CHECK_THAT(refusal("reduce_scatter x over world partition x over world"),
               Contains("the buffer is scattered over") && Contains("already"));
    CHECK_THAT(refusal("state e like x partition e over world"),
               Contains("e is a state: it keeps the part that it was made for"));
    std::string many;
    for (int i = 0; i < 49; ++i) many += "state e" + std::to_string(i) + " like x\n";
    CHECK_THAT(refusal(many), Contains("this schedule makes more than 48 buffers") && Contains(":49:"));
}

TEST_CASE("only x moves, and of selections and sums the pieces are gathered") {
    CHECK_THAT(refusal("state e like x all_reduce e over world"),
               Contains("e is a state: it stays with its rank") && Contains("assign it to x, and move x"));
    CHECK_THAT(refusal("all_reduce w over world"),
               Contains("w is the same on all ranks: there is nothing to move"));
    const std::string select = "let s = mstopk(x, 0.1)\n";
    CHECK_THAT(refusal(select + "all_reduce s over world"),
               Contains("s cannot be moved by all_reduce") && Contains("all_gather brings the ranks'"));
    CHECK_THAT(refusal(select + "s : 0 -> 1"), Contains("s cannot be moved by a transfer"));
    CHECK_THAT(refusal("state e like x e : 0 -> 1"), Contains("e cannot be moved by a transfer"));
    CHECK_THAT(refusal("x : 0 -> w : 1"), Contains("cannot"));
    CHECK_THAT(refusal(select + "let h = s.part(0 of 2)"), Contains("only x can be divided by part()"));
    CHECK_THAT(
        check_error("schedule t all_to_all(x) with w { all_to_all x over world }", Collective::all_to_all),
        Contains("a schedule cannot both exchange data and compute"));
    CHECK_THAT(
        check_error("schedule t all_to_all(x) { x = 2 * x all_to_all x over world }", Collective::all_to_all),
        Contains("a schedule cannot both exchange data and compute"));
    CHECK_THAT(
        check_error("schedule t all_to_all(x) { all_to_all x over world x = 2 * x }", Collective::all_to_all),
        Contains("a schedule cannot both exchange data and compute"));
    for (const char* const statement : {"x = 2 * x", "state e like x", "partition x over g"})
        CHECK_THAT(check_error(std::string("algorithm a all_gather(x) over g { ") + statement + " }",
                               Collective::all_gather),
                   Contains("an algorithm consists of transfers"));
    CHECK(check_error("algorithm a all_gather(x) over g { let s = mstopk(x, 0.5) }",
                      Collective::all_gather) != "");
}

TEST_CASE("real numbers and parameters of a start stand only in computations") {
    CHECK_THAT(refusal("for i in 0 ..< 2.5 { x = 2 * x }"), Contains("expected a whole number, but this is"));
    CHECK_THAT(refusal("for i in 0 ..< rate { x = 2 * x }"),
               Contains("expected a whole number, but this is"));
    CHECK_THAT(refusal("let y = x.part(0 of 2.0)"), Contains("expected a whole number, but this is"));
    CHECK_THAT(refusal("all_reduce x over rate"), Contains("expected a group, but this is"));
    CHECK_THAT(refusal("all_reduce x over world using rate"), Contains("expected an algorithm, but"));
    CHECK(refusal("let half = 0.5 all_reduce x over world x = half * x + rate * w") == "");
}
