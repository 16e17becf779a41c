// `if`, functions, lets before `where` and parameters of algorithms: right and wrong texts, and random ones
// against the same transfers written out.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "dsl/elaboration/elaborate.hpp"
#include "dsl/elaboration/find.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using Catch::Matchers::Contains;
using dsl::Collective;
using dsl::Rank;

namespace {

// The steps of an algorithm, or of the schedule `name` of a text, as far as they mean something.
using StepText = std::tuple<std::uint32_t, Rank, Rank, bool, dsl::Region, dsl::Region>;
std::vector<StepText> steps_of(const std::string& text, const std::string& name, Collective collective,
                               const std::string& topology, const dsl::Wanted& only = {}, Rank root = 0) {
    const TemporarySchedule file(text);
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    const dsl::Runnable runnable = dsl::find_runnable(library, file.path() + ":" + name, collective);
    const dsl::Topology levels = dsl::grid_topology(topology);
    const dsl::StepGraph graph = dsl::elaborate(runnable, library, levels, {root, only, {}, {}});
    std::vector<StepText> steps;
    for (const dsl::Step& step : graph.steps)
        steps.emplace_back(step.phase, step.source, step.destination, step.combines,
                           graph.regions[step.region], graph.regions[step.target]);
    return steps;
}

// The compiler's refusal of an algorithm with this body on 4 ranks.
std::string algorithm_refusal(const std::string& body) {
    return check_error("algorithm t all_reduce(x) over g {\n" + body + "\n}");
}
constexpr const char* right = "\neach r in g, q in g where q != r x : r +> q";

std::string schedule_refusal(const std::string& body) {
    return check_error("schedule t all_reduce(x) {\n" + body + "\n}", Collective::all_reduce, "2x2");
}

}  // namespace

TEST_CASE("a slice goes on at the first chunk after the last one, wherever it begins") {
    const auto steps = [](const std::string& region, const std::string& topology) {
        return steps_of("algorithm t reduce_scatter(x) over g { each r in g  " + region + " : r +> r + 1 }",
                        "t", Collective::reduce_scatter, topology);
    };
    std::mt19937 random(7);
    for (const char* topology : {"2", "5", "8", "2x3", "3x2x2"}) {
        const Rank size = dsl::grid_topology(topology).ranks();
        for (int round = 0; round < test::in_long_form(40, 6); ++round) {
            const int first = static_cast<int>(random() % 41) - 20,
                      length = 1 + static_cast<int>(random() % size);
            const int turns = static_cast<int>(random() % 5) - 2;
            std::vector<dsl::Interval> chunks;
            for (int i = first; i < first + length; ++i) {
                const Rank chunk = static_cast<Rank>(dsl::wrap(i, size));
                chunks.push_back({dsl::Rational(chunk, size), dsl::Rational(chunk + 1, size)});
            }
            const auto slice = [&](int begin) {
                return steps(fmt::format("x[{} ..< {}]", begin, begin + length), topology);
            };
            const auto found = slice(first);
            INFO(topology << ": " << first << " ..< " << first + length);
            CHECK(std::get<4>(found[0]) == dsl::merged(chunks));
            CHECK(slice(first + turns * size) == found);
        }
    }
}

TEST_CASE("branches, functions and lets of an each are printed as what they are") {
    CHECK(printed(
              "algorithm a broadcast(x, root; n = 2, m = n + 1) over g {\n"
              "  let f(i, k) = i + k\n"
              "  if g.size > 2\n"
              "    each r in g let q = f(r, 1) let h(i) = i where q != 0 {\n"
              "      if q == 1 x : r -> q else { x[1] : r -> h(q) }\n"
              "    }\n"
              "  else if n == 1 {} else x : 0 -> 1\n"
              "}\n"
              "schedule s broadcast(x, root) { broadcast x over world from root using a(3, m = 2 * 2) }\n") ==
          "   1:1   algorithm a broadcast(x, root; n = 2, m = (n + 1)) over g\n"
          "   2:3     let f(i, k) = (i + k)\n"
          "   3:3     if (g.size > 2)\n"
          "   4:5       each r in g let q = f(r, 1) let h(i) = i where (q != 0)\n"
          "   5:7         if (q == 1)\n"
          "   5:17          x : r -> q\n"
          "   5:35        else\n"
          "   5:35          x[1] : r -> h(q)\n"
          "   7:8     else\n"
          "   7:8       if (n == 1)\n"
          "   7:26      else\n"
          "   7:26        x : 0 -> 1\n"
          "   9:1   schedule s broadcast(x, root)\n"
          "   9:33    broadcast x over world from root using a(3, m = (2 * 2))\n");
}

TEST_CASE("an if runs one of its sides, in algorithms, in each, and in schedules") {
    CHECK(algorithm_refusal(
              "if g.size == 4 { each r in g, q in g where q != r x : r +> q } else x : 0 -> 1") == "");
    CHECK(algorithm_refusal("if g.size != 4 x : 0 -> 1 else each r in g, q in g where q != r x : r +> q") ==
          "");
    CHECK(algorithm_refusal("if 0 { x : 0 -> 1 / 0 }" + std::string(right)) == "");
    CHECK(algorithm_refusal("each r in g, q in g { if q != r { let p = q x : r +> p } }") == "");
    CHECK(algorithm_refusal("each r in g, q in g if q == r {} else if q < r x : r +> q else x : r +> q") ==
          "");
    CHECK(schedule_refusal("if levels.count == 2 { all_reduce x over levels[0] using exchange\n"
                           "  all_reduce x over levels[1] using exchange } else x : 0 +> 1") == "");
    CHECK(schedule_refusal("for l in levels if l.size == 2 all_reduce x over l using exchange") == "");
    CHECK(schedule_refusal("all_reduce x over (if ranks > 2 then world else levels[0]) using exchange") ==
          "");
    CHECK(schedule_refusal("if ranks == 4 { each r in world, q in world where q != r x : r +> q }") == "");
    CHECK_THAT(schedule_refusal("if ranks == 4 all_reduce x over levels[0] using exchange"),
               Contains("ends with") && Contains("missing"));
}

TEST_CASE("functions see what was known before them, and are called with any values") {
    CHECK(algorithm_refusal(
              "let f(i) = (i + 1) mod g.size each s in 1 ..< g.size, r in g x : r +> f(r) + s - 1") == "");
    CHECK(algorithm_refusal(
              "for k in 1 ..< 2 { let f(i) = i + k each s in 0 ..< g.size - 1, r in g x : r +> f(r) + s }") ==
          "");
    CHECK(algorithm_refusal("let f(i) = i + 1 let h(i, j) = f(f(i)) + j - 2\n"
                            "each r in g, s in 1 ..< g.size x : r +> h(r, s)") == "");
    CHECK(algorithm_refusal("each r in g, s in 1 ..< g.size { let f(i) = i + r x : r +> f(s) }") == "");
    CHECK(algorithm_refusal("each s in 1 ..< g.size, r in g let f(i) = i + r x : r +> f(s)") == "");
    CHECK(algorithm_refusal("let f(i) = if i < 2 then 1 - i else i let i = 1" + std::string(right)) == "");
    CHECK(schedule_refusal("let l(i) = levels[i] all_reduce x over l(0) using exchange "
                           "all_reduce x over l(1) using exchange") == "");
    CHECK(schedule_refusal("let p(i) = x.part(i of 2) for i in 0 ..< 2 { let y = p(i)\n"
                           "all_reduce y over world using exchange }") == "");
    CHECK(schedule_refusal("let half(i) = i / 2 x = x * half(4) all_reduce x over world using exchange") ==
          "");
    CHECK(schedule_refusal("let f(i) = i x = x * f(0.5) all_reduce x over world using exchange") == "");
}

TEST_CASE("where sees the lets of its each") {
    CHECK(algorithm_refusal("each r in g, s in g let q = r + s where q mod g.size != r x : r +> q") == "");
    CHECK_THAT(algorithm_refusal("each r in g, s in g where q != r { let q = r + s x : r +> q }"),
               Contains("'q' is not known here"));
    CHECK(algorithm_refusal("each r in g, i in g let y = x.part(0 of 2) where r != i y : r +> i "
                            "each r in g, i in g let y = x.part(1 of 2) where r != i y : r +> i") == "");
}

TEST_CASE("a part of where keeps those behind it from being evaluated, and no other does") {
    CHECK(algorithm_refusal("each r in g, q in g where q != r and (r - q) / (r - q) == 1 x : r +> q") == "");
    CHECK(algorithm_refusal("each d in 0 ..< 4, r in g where d != 0 and d / d == 1 x : r +> r + d") == "");
    // The second part knows its variable first, but the first one keeps 0 away.
    CHECK(algorithm_refusal(
              "each d in 0 ..< 4, r in g where (r + 1) * d != 0 and d / d == 1 x : r +> r + d") == "");
    CHECK_THAT(
        algorithm_refusal("each d in 0 ..< 4, r in g where d / d == 1 and (r + 1) * d != 0 x : r +> r + d"),
        Contains("division by zero"));
}

TEST_CASE("wrong branches, functions and lets are refused at their place, with what to do") {
    const std::vector<std::pair<std::string, std::string>> wrong = {
        {"if g x : 0 -> 1", "2:4: error: expected a number, but this is a group"},
        {"if q x : 0 -> 1", "2:4: error: 'q' is not known here"},
        {"if 1 / 0 x : 0 -> 1", "2:4: error: division by zero"},
        {"else x : 0 -> 1", "2:1: error: expected '}' here"},
        {"if 1", "3:1: error: expected a statement or a block here"},
        {"if 1 {} else", "3:1: error: expected a statement or a block here"},
        {"if { }", "2:4: error: expected an expression here"},
        {"if 1 then x : 0 -> 1", "2:6: error: expected a statement or a block here"},
        {"if 1 then x : 0 -> 1", "`then` is for values"},
        {"each r in g if r == 0 for s in g x : r -> s",
         "2:23: error: `each` may contain only transfers, `let` and `if`"},
        {"each r in g { if 0 {} else each s in g x : 0 -> 1 }",
         "2:28: error: `each` may contain only transfers, `let` and `if`"},
        {"if 1 let n = 1\nx : 0 -> n", "3:10: error: 'n' is not known here"},
        {"if 1 { let n = 1 let n = 2 }", "there is a 'n' here already"},
        {"let n = 1 if 1 { } else { let n = 2 }", "there is a 'n' here already"},
        {"let f() = 1", "2:7: error: expected a name here"},
        {"let f(2) = 1", "2:7: error: expected a name here"},
        {"let f(i, i) = 1", "there is a 'i' here already"},
        {"let f(g) = 1", "there is a 'g' here already"},
        {"let f(f) = 1", "there is a 'f' here already"},
        {"let f(i) = i let f = 2", "there is a 'f' here already"},
        {"let log2(i) = i", "2:5: error: 'log2' cannot be a name: it is one of the language's own"},
        {"let block(i) = i", "'block' cannot be a name"},
        {"let f(i) = i + k let k = 1 x : 0 -> f(1)", "2:16: error: 'k' is not known here"},
        {"let f(i) = f(i - 1) x : 0 -> f(1)", "2:12: error: a function cannot call itself"},
        {"let f(i) = i x : 0 -> f(1, 2)", "2:23: error: f takes 1 argument, not 2"},
        {"let f(i) = i x : 0 -> f", "2:23: error: expected a number, but this is a function"},
        {"let f(i) = i x : 0 -> f(i = 1)", "2:25: error: a function's arguments have no names"},
        {"let k = 1 x : 0 -> k(1)", "2:20: error: 'k' is a number, not a function"},
        {"let f(i) = i.size x : 0 -> f(1)", "2:12: error: a number has no 'size'"},
        {"let f(h) = h(h) x : 0 -> f(f)", "a function cannot be given to a function"},
        {"let f(h, i) = if i == 0 then 1 else h(h, i - 1) x : 0 -> f(f, 1)",
         "a function cannot be given to a function"},
        {"{ let f(i) = i } x : 0 -> f(1)", "there is no function 'f' here"},
        {"each r in g let q = r", "3:1: error: expected a transfer, 'if' or a block here"},
        {"each r in g let r = 1 x : 0 -> 1", "there is a 'r' here already"},
        {"each r in g let q = r let q = r x : 0 -> 1", "there is a 'q' here already"},
        {"each r in g let q = p where q == 0 x : 0 -> 1", "2:21: error: 'p' is not known here"},
        {"each r in g where r == 0 let q = r x : 0 -> 1",
         "2:26: error: expected a transfer, 'if' or a block here"},
        {"each r in g where r == 0 let q = r x : 0 -> 1", "lets stand before `where`"},
    };
    for (const auto& [body, message] : wrong) {
        INFO(body);
        CHECK_THAT(algorithm_refusal(body), Contains(message));
    }
    CHECK_THAT(algorithm_refusal("let f(i) = 1 / i let h(i) = f(i - 1)\nx : 0 -> h(1)"),
               Contains("2:12: error: division by zero") && Contains("2:29: note: in this call") &&
                   Contains("3:10: note: in this call"));
    CHECK_THAT(check_error("update u { let f(i) = i w = w + f(1) * g }"), Contains("has no schedule"));
    CHECK_THAT(schedule_refusal("let f(i) = levels[i] x = x * f(0)"),
               Contains("expected a number, but f gives a group here"));
}

TEST_CASE("functions that would call each other without end are refused where they are made") {
    std::string text = "let f0(i) = i";
    for (int i = 1; i <= 12; ++i) text += fmt::format("\nlet f{0}(i) = f{1}(i) + f{1}(i)", i, i - 1);
    CHECK_THAT(algorithm_refusal(text + right),
               Contains("11:5: error: a call of f9 makes more than 1000 others") && Contains("let n = f(1)"));
    std::string chain = "let f0(i) = i";
    for (int i = 1; i <= 300; ++i) chain += fmt::format("\nlet f{}(i) = f{}(i) + 1", i, i - 1);
    CHECK_THAT(algorithm_refusal(chain + right),
               Contains("the functions that f") && Contains("nested too deeply"));
}

TEST_CASE("an algorithm takes its parameters by position and by name") {
    const std::string text =
        "algorithm a broadcast(x, root; n = 1, m = n + 1) over g where n < m { for i in n ..< m x : root -> "
        "i }\n"
        "schedule s broadcast(x, root; k = 2, which = a) { broadcast x over world from root using which }\n"
        "schedule p broadcast(x, root; k = 2) { broadcast x over world from root using a(m = 2 * k, n = k + "
        "1) }\n";
    const auto to = [&](const std::string& name) {
        std::vector<Rank> members;
        for (const StepText& step : steps_of(text, name, Collective::broadcast, "6"))
            members.push_back(std::get<2>(step));
        return members;
    };
    CHECK(to("a") == std::vector<Rank>{1});
    CHECK(to("a(3)") == std::vector<Rank>{3});
    CHECK(to("a(3, 5)") == std::vector<Rank>{3, 4});
    CHECK(to("a(m = 4)") == std::vector<Rank>{1, 2, 3});
    CHECK(to("a(2, m = 5)") == std::vector<Rank>{2, 3, 4});
    CHECK(to("a(m = 3, n = 1)") == std::vector<Rank>{1, 2});
    CHECK(to("s") == std::vector<Rank>{1});
    CHECK(to("s(which = a(3, 5))") == std::vector<Rank>{3, 4});
    CHECK(to("s(1, a(m = 5, n = 4))") == std::vector<Rank>{4});
    CHECK(to("p") == std::vector<Rank>{3});
    CHECK(to("p(k = 3)") == std::vector<Rank>{4, 5});
}

TEST_CASE("wrong arguments are refused at their place, with the parameters that there are") {
    const TemporarySchedule file(
        "algorithm a broadcast(x, root; n = 1, m = 2) over g where n < m { x : root -> root + n }\n"
        "algorithm b broadcast(x, root) over g { x : root -> root + 1 }\n"
        "schedule s broadcast(x, root; which = a) { broadcast x over world from root using which(1) }\n"
        "schedule t broadcast(x, root) { broadcast x over world from root using a(q) }\n"
        "schedule u broadcast(x, root) { broadcast x over world from root using a(5) }\n"
        "schedule v broadcast(x, root; rate) { broadcast x over world from root using a(levels) }\n");
    const auto error = [&](const std::string& name) {
        return error_of(
            [&] { dsl::check_schedule(request(Collective::broadcast, file.path() + ":" + name, "2")); });
    };
    CHECK(error("a") == "");
    CHECK_THAT(error("a(1, 2, 3)"), Contains("a takes at most 2 arguments, not 3"));
    CHECK_THAT(error("b(1)"), Contains("b takes no arguments"));
    CHECK_THAT(error("a(k = 1)"), Contains("a takes no argument 'k'") && Contains("it takes: n, m"));
    CHECK_THAT(error("a(1, n = 2)"), Contains("n is given twice"));
    CHECK_THAT(error("a(m = 2, m = 3)"), Contains("m is given twice"));
    CHECK_THAT(error("a(m = 2, 1)"), Contains("an argument without a name stands behind one with a name"));
    CHECK_THAT(error("a(n = )"), Contains("expected an expression here"));
    CHECK_THAT(error("a(n == 1)"), Contains("'n' is not known here"));
    CHECK_THAT(error("a(3)"),
               Contains("a(3, 2) cannot run on a group of 2 ranks") && Contains("because of this condition"));
    CHECK_THAT(error("u"), Contains("a(5, 2) cannot run on a group of 2 ranks"));
    CHECK_THAT(error("s"), Contains("'which' has its arguments already"));
    CHECK_THAT(error("t"), Contains("4:74: error: 'q' is not known here"));
    CHECK_THAT(error("a(q)"), Contains("expected a number, but this is a name"));
    CHECK_THAT(error("v"), Contains("expected a number, but this is a list of groups"));
    CHECK_THAT(error("v(rate = 1)"), Contains("v takes rate at each start, not as an argument") &&
                                         Contains("--parameter rate=NUMBER"));
    for (const char* header :
         {"(x, root; n) over g", "(x, root; n = 1, n = 2) over g", "(x, root; g = 1) over g",
          "(x, root; root = 1) over g", "(x, root;) over g", "(x, root; world = 1) over g"}) {
        INFO(header);
        CHECK_THAT(parse_error(fmt::format("algorithm a broadcast{} {{ }}", header)),
                   Contains("expected ") || Contains("here already") || Contains("language's own"));
    }
}

TEST_CASE("a fault of an algorithm with arguments is reported with them") {
    CHECK_THAT(
        check_error("algorithm a all_reduce(x; n = 0) over g { each r in g, q in g where q != r and q >= n "
                    "x : r +> q }\n"
                    "schedule t all_reduce(x) { all_reduce x over world using a(n = 2) }"),
        Contains("algorithm a(2) all_reduce on 4 ranks: rank 0 ends with"));
}

TEST_CASE("a tree of radix 2 is the binomial tree, and trees of any radix are right") {
    for (const Collective collective :
         {Collective::broadcast, Collective::reduce, Collective::gather, Collective::scatter}) {
        for (const char* topology : {"2", "5", "8", "13"}) {
            const auto steps = [&](const std::string& name) {
                dsl::Library library({HOCKET_SCHEDULES_DIR});
                const dsl::Runnable runnable = dsl::find_runnable(library, name, collective);
                const dsl::StepGraph graph =
                    dsl::elaborate(runnable, library, dsl::grid_topology(topology), {1, {}, {}, {}});
                std::vector<StepText> all;
                for (const dsl::Step& step : graph.steps)
                    all.emplace_back(step.phase, step.source, step.destination, step.combines,
                                     graph.regions[step.region], graph.regions[step.target]);
                std::stable_sort(all.begin(), all.end(), [](const StepText& a, const StepText& b) {
                    return std::tie(std::get<0>(a), std::get<1>(a), std::get<2>(a)) <
                           std::tie(std::get<0>(b), std::get<1>(b), std::get<2>(b));
                });
                return all;
            };
            INFO(name_of(collective) << " on " << topology);
            CHECK(steps("knomial(2)") == steps("binomial"));
        }
        for (int radix = 2; radix <= 6; ++radix)
            for (const char* topology : {"1", "2", "7", "16", "17"}) {
                INFO(name_of(collective) << " of radix " << radix << " on " << topology);
                CHECK(error_of([&] {
                          dsl::check_schedule(
                              request(collective, fmt::format("knomial(radix = {})", radix), topology, 0, 0));
                      }) == "");
            }
    }
    CHECK_THAT(error_of([] { dsl::check_schedule(request(Collective::broadcast, "knomial(1)", "4")); }),
               Contains("knomial(1) cannot run on a group of 4 ranks"));
}

// ---- Random algorithms, and the same transfers written out ---------------------------------------

namespace {

// A number in the round s, the iteration's r and q, and the group's size n; and its text.
struct Numbers {
    std::int64_t s, r, q, n;
};
struct Term {
    std::string text;
    std::function<std::int64_t(const Numbers&)> value;
};

// Writes an algorithm, and works out its transfers itself.
class Pair {
  public:
    Pair(unsigned seed, int size) : random_(seed), size_(size) {}

    std::string text, written_out;

    void make() {
        text = "algorithm a all_reduce(x) over g {\n";
        written_out = "algorithm a all_reduce(x) over g {\n";
        const Term outer = term(false, 1);
        text += fmt::format("let f(i) = i + (if i < 2 then {} else 1)\n", outer.text);
        const auto f = [outer, n = size_](std::int64_t i) {
            return i + (i < 2 ? outer.value({0, 0, 0, n}) : 1);
        };
        functions_.push_back({"f", f});
        text += "for s in 0 ..< 3 {\n";
        const Term guard = term(false, 1), inner = term(true, 2), where = term(true, 2),
                   choice = term(true, 1);
        const Term to = term(true, 2), other = term(true, 1), body = term(true, 1);
        text += fmt::format("let h(j) = {} + j * s\n", guard.text);
        // The lets stand before a condition, which is `where` or an if.
        const bool is_where = up_to(3) > 0;
        text += fmt::format(
            "if {} mod 3 == 0 x : 0 +> 1 else each r in g, q in 0 ..< 2 {} let u = {} let k(j) = j + {} "
            "{} (u + {}) mod 3 != 1 {{\n",
            guard.text, is_where ? "" : "{", inner.text, body.text, is_where ? "where" : "if", where.text);
        text += fmt::format("if u mod 2 == ({}) & 1 {{ if r mod g.size != ({}) mod g.size x : r +> {} }}\n",
                            choice.text, to.text, to.text);
        text +=
            fmt::format("else if r != k(h(u)) mod g.size {{ let t = k(h(u)) x[{}] : r +> t }} {}}} }} }}\n",
                        other.text, is_where ? "" : "} ");
        for (std::int64_t s = 0; s < 3; ++s) {
            const Numbers round{s, 0, 0, size_};
            if (modulo(guard.value(round), 3) == 0) {
                written_out += "x : 0 +> 1\n";
                continue;
            }
            written_out += "each one in 0 ..< 1 {\n";
            for (std::int64_t r = 0; r < size_; ++r)
                for (std::int64_t q = 0; q < 2; ++q) {
                    const Numbers at{s, r, q, size_};
                    const std::int64_t u = inner.value(at);
                    if (modulo(u + where.value(at), 3) == 1) continue;
                    const std::int64_t far = guard.value(round) + u * s + body.value(at);
                    if (modulo(u, 2) == (choice.value(at) & 1)) {
                        if (modulo(to.value(at), size_) != r) transfer("x", r, to.value(at));
                    } else if (r != modulo(far, size_)) {
                        transfer(fmt::format("x[{}]", modulo(other.value(at), size_)), r, far);
                    }
                }
            written_out += "}\n";
        }
        written_out += "}\n";
    }

  private:
    static std::int64_t modulo(std::int64_t a, std::int64_t n) { return ((a % n) + n) % n; }
    void transfer(const std::string& place, std::int64_t from, std::int64_t to) {
        written_out += fmt::format("{} : {} +> {}\n", place, from, modulo(to, size_));
    }
    int up_to(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

    Term term(bool in_each, int depth) {
        if (depth == 0) return leaf(in_each);
        const Term a = term(in_each, depth - 1), b = term(in_each, depth - 1);
        const auto both = [&](const char* op, auto value) {
            return Term{fmt::format("(({}) {} ({}))", a.text, op, b.text),
                        [=](const Numbers& at) { return value(a.value(at), b.value(at)); }};
        };
        switch (up_to(8)) {
            case 0:
                return both("&", [](std::int64_t x, std::int64_t y) { return x & y; });
            case 1:
                return both("|", [](std::int64_t x, std::int64_t y) { return x | y; });
            case 2:
                return both("+", [](std::int64_t x, std::int64_t y) { return x + y; });
            case 3:
                return both("xor", [](std::int64_t x, std::int64_t y) { return x ^ y; });
            case 4:
                return {fmt::format("(({}) >> 1)", a.text),
                        [=](const Numbers& at) { return (a.value(at) - modulo(a.value(at), 2)) / 2; }};
            case 5:
                if (functions_.empty()) break;
                return {fmt::format("f({})", a.text),
                        [=, f = functions_[0].second](const Numbers& at) { return f(a.value(at)); }};
            case 6:
                return {fmt::format("log(1 + (({}) mod 20), 3)", a.text), [=](const Numbers& at) {
                            const std::int64_t n = 1 + modulo(a.value(at), 20);
                            return std::int64_t{n >= 9 ? 2 : n >= 3 ? 1 : 0};
                        }};
            default:
                break;
        }
        return {fmt::format("(if {} < {} then {} else 1)", a.text, b.text, b.text),
                [=](const Numbers& at) { return a.value(at) < b.value(at) ? b.value(at) : 1; }};
    }

    Term leaf(bool in_each) {
        switch (up_to(in_each ? 5 : 2)) {
            case 0:
                return {"g.size", [](const Numbers& at) { return at.n; }};
            case 1: {
                const int number = up_to(5);
                return {std::to_string(number), [number](const Numbers&) { return std::int64_t{number}; }};
            }
            case 2:
                return {"s", [](const Numbers& at) { return at.s; }};
            case 3:
                return {"r", [](const Numbers& at) { return at.r; }};
            default:
                return {"q", [](const Numbers& at) { return at.q; }};
        }
    }

    std::mt19937 random_;
    std::int64_t size_;
    std::vector<std::pair<std::string, std::function<std::int64_t(std::int64_t)>>> functions_;
};

}  // namespace

TEST_CASE("random branches, functions and lets make the transfers that are written out by hand") {
    std::size_t transfers = 0;
    const unsigned seeds = test::in_long_form(400u, 42u);
    for (unsigned seed = 0; seed < seeds; ++seed) {
        const int size = 2 + static_cast<int>(seed % 6);
        Pair pair(seed, size);
        pair.make();
        INFO(pair.text << "\n" << pair.written_out);
        const std::string topology = std::to_string(size);
        const auto made = steps_of(pair.text, "a", Collective::all_reduce, topology);
        REQUIRE(made == steps_of(pair.written_out, "a", Collective::all_reduce, topology));
        transfers += made.size();
        // And one rank's are those of them that it takes part in.
        std::vector<StepText> own;
        for (const StepText& step : made)
            if (std::get<1>(step) == 1 || std::get<2>(step) == 1) own.push_back(step);
        REQUIRE(own == steps_of(pair.text, "a", Collective::all_reduce, topology, 1));
    }
    CHECK(transfers > 5 * seeds);
}
