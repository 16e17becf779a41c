// Operators that schedule files define: their syntax, their formulas, and refusals.
#include "dsl/elaboration/find.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using test::parse_error;
using test::printed;

namespace {

dsl::Operator operator_in(const std::string& text, const std::string& name = "") {
    const test::TemporarySchedule file(text);
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    return dsl::find_operator(library, file.path() + (name.empty() ? "" : ":" + name));
}

std::string formula_text(const dsl::Operator& op) {
    return dsl::text_of(op.formula, {"a", "b"}, {}, {});
}

std::string operator_error(const std::string& value) {
    return test::error_of([&] { operator_in("operator o(a, b) = " + value); });
}

}  // namespace

TEST_CASE("an operator is printed with what it promises") {
    CHECK(printed("operator absmax(a, b) commutative associative = select(abs(a) >= abs(b), a, b)") ==
          "   1:1   operator absmax(a, b) commutative associative = select((abs(a) >= abs(b)), a, b)\n");
    CHECK(printed("operator p(x, y) associative commutative = x\noperator q(a, b) associative = b operator "
                  "r(a, b) commutative = a * b operator s(a, b) = a - 2.5 * b") ==
          "   1:1   operator p(x, y) commutative associative = x\n"
          "   2:1   operator q(a, b) associative = b\n"
          "   2:34  operator r(a, b) commutative = (a * b)\n"
          "   2:71  operator s(a, b) = (a - (2.5 * b))\n");
    // The two words are names everywhere else.
    CHECK(parse_error("algorithm commutative all_gather(associative) over g { }") == "");
}

TEST_CASE("an operator becomes a formula of its first and its second") {
    const dsl::Operator absmax =
        operator_in("operator absmax(a, b) commutative associative = select(abs(a) >= abs(b), a, b)");
    CHECK(absmax.name == "absmax");
    CHECK(formula_text(absmax) == "select((abs(a) >= abs(b)), a, b)");
    CHECK((absmax.commutative && absmax.associative));
    // Operands are identified by name, not by their order in the expression.
    const std::string two = "operator p(u, v) = v - 0.5 * u operator q(u, v) associative = v";
    CHECK(formula_text(operator_in(two, "p")) == "b - (0.5 * a)");
    CHECK(formula_text(operator_in(two, "q")) == "b");
    CHECK(operator_in(two, "q").associative);
    CHECK_FALSE(operator_in(two, "q").commutative);
    // The definition can still be shown when the file's text is gone.
    CHECK_THAT(dsl::render({absmax.definition, "here", {}, ""}),
               Contains("operator absmax(a, b) commutative associative") && Contains("^~~~"));
    CHECK(operator_in(two, "p") != operator_in(two, "q"));
    CHECK(operator_in(two, "p") == operator_in("\noperator p(a, b) = b - 0.5 * a"));
}

TEST_CASE("an operator is found by its name, in its file, or as the only one of its file") {
    const test::TemporaryFolder folder;
    folder.write("mine.sched", "operator first(a, b) associative = a operator last(a, b) associative = b");
    dsl::Library library({folder.path()});
    CHECK(dsl::find_operator(library, "last").name == "last");
    const auto error = [&](const std::string& text) {
        return test::error_of([&] { dsl::find_operator(library, text); });
    };
    CHECK_THAT(error("middle"),
               Contains("there is no operator 'middle'; there are: first, last; looked in " + folder.path()));
    CHECK_THAT(error(folder.path() + "/mine.sched"), Contains("has 2 operators: name one, as"));
    CHECK_THAT(error(folder.path() + "/mine.sched:middle"), Contains("defines no operator 'middle'"));
    CHECK_THAT(error(folder.path() + "/other.sched:middle"), Contains("cannot read"));
    CHECK_THAT(error("last(3)"), Contains("an operator takes no arguments") && Contains("write last"));
    CHECK_THAT(error("last +"), Contains("expected"));
    dsl::Library empty({HOCKET_SCHEDULES_DIR});
    CHECK_THAT(test::error_of([&] { dsl::find_operator(empty, "last"); }), Contains("no file defines one"));
}

TEST_CASE("what is wrong with an operator is said with its line and a caret") {
    CHECK_THAT(parse_error("operator o(a) = a"), StartsWith("t.sched:1:13: error: expected ',' here"));
    CHECK_THAT(parse_error("operator o(a, b, c) = a"), StartsWith("t.sched:1:16: error: expected ')' here"));
    CHECK_THAT(parse_error("operator o(a, b) commutative commutative = a"), Contains("expected '=' here"));
    CHECK_THAT(parse_error("operator o(a, b) associativ = a"), Contains("expected '=' here"));
    CHECK_THAT(parse_error("operator o(a, b) ="), Contains("the value behind this '=' is missing"));
    CHECK_THAT(parse_error("operator o(a, a) = a"),
               Contains("t.sched:1:15: error: there is a 'a' here already") && Contains("this one"));
    CHECK_THAT(parse_error("operator o(ranks, b) = b"), Contains("it is one of the language's own"));
    CHECK_THAT(test::error_of([] { operator_in("operator o(a, b) = a operator o(a, b) = b", "o"); }),
               Contains("'o' is defined twice"));
    CHECK_THAT(operator_error("a + c"), Contains(":1:24: error:") && Contains("'c'") && Contains("^"));
    CHECK_THAT(operator_error("a + world"), Contains(":1:24: error:"));
    CHECK_THAT(operator_error("a ** 2"), Contains("'**' cannot be calculated for each element"));
    CHECK_THAT(operator_error("a xor b"), Contains("'xor' cannot be calculated for each element"));
    CHECK_THAT(operator_error("a[0]"), Contains("this cannot be calculated for each element"));
    CHECK_THAT(operator_error("sin(a)"), Contains("there is no function 'sin' of elements"));
    CHECK_THAT(operator_error("abs(a, b)"), Contains("abs takes 1 argument, not 2"));
    std::string large = "a";
    for (int level = 0; level < 7; ++level) large = "max(" + large + ", " + large + ")";
    CHECK(operator_error(large) == "");  // 255
    CHECK_THAT(
        operator_error("-(-" + large + ")"),
        Contains("this operator has 257 names, numbers and operations") && Contains("the limit is 256"));
    for (const std::string function : {"sum", "dense", "cleared", "mstopk", "total"})
        CHECK_THAT(operator_error("1 + " + function + "(a)"),
                   Contains(":1:24: error: " + function + " cannot stand in an operator") &&
                       Contains("an operator is made of a, b, numbers, and abs"));
}
