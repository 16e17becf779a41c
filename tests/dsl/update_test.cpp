// Updates: their syntax, their formulas, their lookup, and refusals.
#include "dsl/elaboration/find.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using test::parse_error;

namespace {

dsl::Update found(const std::string& text) {
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    return dsl::find_update(library, text);
}

std::string update_text(const std::string& text) {
    return dsl::text_of(found(text));
}

std::string find_error(const std::string& text) {
    return test::error_of([&] { found(text); });
}

// The error for a file with this definition.
std::string update_error(const std::string& definition) {
    const test::TemporarySchedule file(definition);
    return find_error(file.path());
}

}  // namespace

TEST_CASE("if chooses a side of an update before it is applied") {
    CHECK(update_text("w = if 1 < 2 then w - 0.5 ** round * g else w") ==
          update_text("w = w - 0.5 ** round * g"));
    CHECK(update_text("w = w - (if 2 ** 2 == 4 then 1 - 0.5 else g) * g") ==
          update_text("w = w - (1 - 0.5) * g"));
    CHECK(update_text("let n = total(if 0 then w else g * g) w = w * sum(n)") ==
          update_text("let n = total(g * g) w = w * sum(n)"));
    CHECK_THAT(find_error("w = if g > 0 then w else g"),
               Contains("expected a number, but this is a buffer") && Contains("select(condition, a, b)"));
    CHECK_THAT(find_error("let a = if round > 1 then 1 else 2 w = w + a * g"),
               Contains("not known before the start") && Contains("select(condition, a, b)"));
    CHECK_THAT(find_error("w = w - (g & 1)"), Contains("'&' cannot be calculated for each element"));
}

TEST_CASE("an update is printed with its parameters and its statements") {
    const dsl::SourceFile file{"t.sched",
                               "update sum { w = w + g }\n"
                               "update both(rate, part = 0.5) {\n"
                               "    state m like w\n"
                               "    let n = total(w * w)\n"
                               "    m = part * m w = w - rate ** round * m\n"
                               "}"};
    CHECK(dsl::ast::print(dsl::parse(file)) ==
          "   1:1   update sum()\n"
          "   1:14    w = (w + g)\n"
          "   2:1   update both(rate, part = 0.5)\n"
          "   3:5     state m like w\n"
          "   4:5     let n = total((w * w))\n"
          "   5:5     m = (part * m)\n"
          "   5:18    w = (w - ((rate ** round) * m))\n");
    // The word is a name everywhere else.
    CHECK(parse_error("algorithm update all_gather(update) over g { }") == "");
}

TEST_CASE("an update becomes its statements, with arguments for its parameters") {
    CHECK(update_text("sum") == "w = w + g");
    CHECK(update_text("average") == "w = w + (g / workers)");
    CHECK(update_text("sgd(0.1)") == "w = w - ((0.1 * g) / workers)");
    CHECK(update_text("sgd(-2)") == "w = w - ((-2 * g) / workers)");
    CHECK(update_text("momentum(0.1)") == "state m like w  m = (0.9 * m) + (g / workers)  w = w - (0.1 * m)");
    CHECK(update_text("momentum(0.1, 0)") ==
          "state m like w  m = (0 * m) + (g / workers)  w = w - (0.1 * m)");
    CHECK(update_text("adam(0.001)") ==
          "state m like w  state v like w  m = (0.9 * m) + ((1 - 0.9) * (g / workers))  "
          "v = (0.999 * v) + (((1 - 0.999) * (g / workers)) * (g / workers))  "
          "w = w - ((0.001 * (m / (1 - (0.9 ** round)))) / (sqrt((v / (1 - (0.999 ** round)))) + 1e-08))");
    const dsl::Update lars = found("lars(1)");
    CHECK(lars.count(dsl::ExtraBuffer::Kind::state) == 1);
    CHECK(lars.count(dsl::ExtraBuffer::Kind::sums) == 2);
    CHECK(found("lars(1, 0.5)").name == "lars(1, 0.5, 0.0001, 0.001)");
    CHECK(found("sum").name == "sum");
    // Values that are the same for all elements are calculated apart: 1 - 0.9, 0.9 ** round, and the
    // expressions around them.
    CHECK(found("adam(0.001)").numbers.size() == 6);
    CHECK(found("sgd(0.1)").numbers.empty());
    // Statements by themselves, those of a library's update among them.
    CHECK(update_text("w = w - 0.1 * g / workers") == update_text("sgd(0.1)"));
    CHECK(found("w = w + g").name == "w = w + g");
    for (const char* const name : {"sum", "average", "sgd(0.1)", "momentum(0.1)", "adam(0.001)", "lars(1)"})
        CHECK(update_text(update_text(name)) == update_text(name));
    const test::TemporarySchedule negative(
        "update flip(c = -1, p = -0.5) { w = c ** round * round ** p * g }");
    const std::string flip = "w = (((-1) ** round) * (round ** (-0.5))) * g";
    CHECK(update_text(negative.path()) == flip);
    CHECK(update_text(flip) == "w = (((- 1) ** round) * (round ** (- 0.5))) * g");
    CHECK(update_text("let left = 1 - 0.5 ** round w = w - left * g") ==
          "w = w - ((1 - (0.5 ** round)) * g)");
    // States come first, wherever they were declared, and sums keep their names in any order.
    CHECK(update_text("let n = largest(abs(g)) w = w - g / max(n)") ==
          "let n = largest(abs(g))  w = w - (g / max(n))");
    CHECK(
        update_text("let a = total(g) state m like w let b = total(w) m = sum(b) - sum(a) w = m * sum(b)") ==
        "state m like w  let a = total(g)  let b = total(w)  m = sum(b) - sum(a)  w = m * sum(b)");
    CHECK(update_text("w = 2 ** (workers - 1) ** 0.5 * g") == "w = (2 ** ((workers - 1) ** 0.5)) * g");
    // The definition, and the names in it, can still be shown when the file's text is gone.
    CHECK_THAT(dsl::render({found("sgd(0.1)").definition, "here", {}, ""}),
               Contains("update sgd(rate)") && Contains("^~~~"));
    CHECK(lars.extras.front().span.text() == "v");
    CHECK(found("state m like w m = g w = m").extras.front().span.text() == "m");
}

TEST_CASE("an update is found by its name, in its file, or as the only one of its file") {
    const test::TemporaryFolder folder;
    folder.write("mine.sched", "update add { w = w + g } update keep(part) { w = part * w }");
    folder.write("one.sched", "update one(part = 0.5) { w = part * w + g }");
    dsl::Library library({folder.path()});
    const auto text = [&](const std::string& of) { return dsl::text_of(dsl::find_update(library, of)); };
    CHECK(text("keep(2)") == "w = 2 * w");
    CHECK(text(folder.path() + "/mine.sched:keep(0.5)") == "w = 0.5 * w");
    CHECK(text(folder.path() + "/one.sched") == "w = (0.5 * w) + g");
    const auto error = [&](const std::string& of) { return test::error_of([&] { text(of); }); };
    CHECK_THAT(
        error("middle"),
        Contains("there is no update 'middle'; there are: add, keep, one; looked in " + folder.path()));
    CHECK_THAT(error(folder.path() + "/mine.sched"), Contains("has 2 updates: name one, as"));
    CHECK_THAT(error(folder.path() + "/mine.sched:middle"), Contains("defines no update 'middle'"));
    CHECK_THAT(error(folder.path() + "/other.sched:middle"), Contains("cannot read"));
    CHECK_THAT(error("keep"), Contains("keep needs a value for part") &&
                                  Contains("note: this parameter has no default") && Contains("keep(0.1)"));
    CHECK_THAT(error("keep(1, 2)"), Contains("keep takes at most 1 argument, not 2"));
    CHECK_THAT(error("keep(ring)"), Contains("an update's parameters are numbers") && Contains("^~~~"));
    CHECK(error("keep(part = 1)") == "");
    CHECK_THAT(error("keep(rest = 1)"),
               Contains("keep takes no argument 'rest'") && Contains("it takes: part"));
    CHECK_THAT(error("keep +"), Contains("expected"));
    CHECK_THAT(update_error("update o(a = b) { w = a * g }"), Contains("an update's parameters are numbers"));
}

TEST_CASE("what is wrong with an update is said with its line and a caret") {
    CHECK_THAT(parse_error("update o(a,) { }"), StartsWith("t.sched:1:11: error: expected ')' here"));
    CHECK_THAT(parse_error("update o() { }"), Contains("expected a parameter here"));
    CHECK_THAT(parse_error("update o w = g"), StartsWith("t.sched:1:10: error: expected '{' here"));
    CHECK_THAT(parse_error("update o {\n for i in 0 ..< 2 w = g }"),
               StartsWith("t.sched:2:2: error: expected 'state', 'let', an assignment or '}' here"));
    CHECK_THAT(parse_error("update o { w = g"), Contains("an assignment or '}' here"));
    CHECK_THAT(parse_error("update o { state m m = g }"), Contains("expected 'like' here"));
    CHECK_THAT(parse_error("update o { w = }"), Contains("expected an expression here"));
    for (const char* const own : {"w", "g", "workers", "round"})
        CHECK_THAT(parse_error(std::string("update o(") + own + ") { w = g }"),
                   StartsWith("t.sched:1:10: error: ") && Contains("it is one of the language's own"));
    CHECK_THAT(parse_error("update o { state g like w w = g }"), Contains("it is one of the language's own"));
    CHECK_THAT(parse_error("update o(m) { state m like w w = g }"),
               Contains("there is a 'm' here already") && Contains("this one"));
    CHECK_THAT(update_error("update o { w = g } update o { w = g }"), Contains("'o' is defined twice"));

    CHECK_THAT(find_error("w = w - rate * g"), StartsWith("<update>:1:9: error: 'rate' is not known here") &&
                                                   Contains("^~~~") &&
                                                   Contains("known here: w, g, workers, round"));
    CHECK_THAT(find_error("w = g x = w"), StartsWith("<update>:1:7: error: 'x' is not known here"));
    CHECK_THAT(find_error("w = g +"), StartsWith("<update>:1:8: error: expected an expression here"));
    CHECK_THAT(find_error("w = g; w = w"), Contains("expected 'state', 'let' or an assignment here"));
    CHECK_THAT(find_error("state m like n w = m"), Contains(":1:14: error: 'n' is not known here"));
    CHECK_THAT(find_error("g = w"), StartsWith("<update>:1:1: error: g holds the workers' gradients"));
    CHECK_THAT(find_error("w = g round = 2"),
               StartsWith("<update>:1:7: error: expected a buffer, but this is"));
    CHECK_THAT(find_error("let n = total(w) n = g"), Contains("expected a buffer like x"));
    CHECK_THAT(find_error("state m like w m = g"),
               StartsWith("<update>:1:1: error: this update does not assign to w"));
    CHECK_THAT(update_error("update o { }"), Contains(":1:1: error: this update does not assign to w"));
    CHECK_THAT(find_error("state m like w w = w + m + g"),
               StartsWith("<update>:1:7: error: m is never assigned to: it stays 0"));
    CHECK_THAT(update_error("update o(rate = 1) { w = g }"), Contains(":1:10: error: rate is never used"));
    CHECK(update_error("update o(rate = 1) { let n = 2 * rate w = n * g }") == "");

    CHECK_THAT(find_error("w = w ** 2"),
               StartsWith("<update>:1:5: error: this power is not the same") && Contains("write x * x"));
    CHECK_THAT(find_error("w = 2 ** g"), Contains("this power is not the same for all elements"));
    CHECK_THAT(find_error("w = g mod 2"), Contains("'mod' cannot be calculated for each element"));
    CHECK_THAT(find_error("w = g * (round xor 2)"), Contains("'xor' cannot be calculated for each element"));
    CHECK_THAT(find_error("w = g[0]"), Contains("this cannot be calculated for each element"));
    CHECK_THAT(find_error("w = sin(g)"), Contains("there is no function 'sin' of elements"));
    CHECK_THAT(find_error("w = abs(2, 3)"), Contains("abs takes 1 argument, not 2"));
    CHECK_THAT(find_error("let n = g * 2 w = g"),
               StartsWith("<update>:1:9: error: let names no values of elements here"));
    CHECK_THAT(find_error("let n = largest(abs(g)) w = w - sum(n) * g"), Contains("write max(n)"));
    CHECK_THAT(find_error("let n = total(w, g) w = g"), Contains("total takes 1 argument"));
    CHECK_THAT(find_error("let n = total(round) w = g"), Contains("this adds up nothing"));
    CHECK_THAT(find_error("let n = total(w) w = n * g"), Contains("write sum(n)"));
    CHECK_THAT(find_error("w = sum(w) * g"), Contains("the sum of selections cannot stand inside"));
    CHECK_THAT(find_error("w = total(g)"), Contains("total cannot stand inside an expression"));
    for (const std::string function : {"dense", "cleared", "mstopk"})
        CHECK_THAT(find_error("w = 1 + " + function + "(w)"), Contains(function + " cannot stand inside"));
}

TEST_CASE("an update has limits") {
    std::string long_one = "w = g";
    for (int i = 0; i < 63; ++i) long_one += " w = w + g";
    CHECK(find_error(long_one) == "");
    CHECK_THAT(find_error(long_one + " w = w"),
               Contains("this update has 65 statements") && Contains("the limit is 64"));
    std::string large = "g";
    for (int level = 0; level < 7; ++level) large = "max(" + large + ", " + large + ")";
    CHECK(find_error("w = " + large) == "");  // 255
    CHECK_THAT(
        find_error("w = -(-" + large + ")"),
        Contains("this expression has 257 names, numbers and operations") && Contains("the limit is 256"));
}
