#include "dsl/syntax/parse.hpp"

#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using namespace hocket::test;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

// The condition of an algorithm, as the tree sees it.
std::string printed_expression(const std::string& text) {
    const std::string all = printed("algorithm a all_gather(x) over g where " + text + " {}");
    const auto begin = all.find("where ") + 6;
    return all.substr(begin, all.find('\n') - begin);
}

}  // namespace

TEST_CASE("operators bind as written in the language reference") {
    CHECK(printed_expression("1 + 2 * 3 - 4") == "((1 + (2 * 3)) - 4)");
    CHECK(printed_expression("2 ** 3 ** 2") == "(2 ** (3 ** 2))");
    CHECK(printed_expression("-2 ** 2") == "(- (2 ** 2))");
    CHECK(printed_expression("a + b xor c - d") == "((a + b) xor (c - d))");
    CHECK(printed_expression("r xor 2**k < n") == "((r xor (2 ** k)) < n)");
    CHECK(printed_expression("a | b xor c & d << 1 + 2") == "(a | (b xor (c & (d << (1 + 2)))))");
    CHECK(printed_expression("a << 1 >> 2 & b & c") == "((((a << 1) >> 2) & b) & c)");
    CHECK(printed_expression("a & 1 == b | 2") == "((a & 1) == (b | 2))");
    CHECK(printed_expression("if a then b or c else d and e") == "(if a then (b or c) else (d and e))");
    CHECK(printed_expression("if a then if b then c else d else if e then f else h") ==
          "(if a then (if b then c else d) else (if e then f else h))");
    CHECK(printed_expression("not a == b and c or d") == "(((not (a == b)) and c) or d)");
    CHECK(printed_expression("not not a and - -b") == "((not (not a)) and (- (- b)))");
    CHECK(printed_expression("a mod b / c") == "((a mod b) / c)");
    CHECK(printed_expression("(a + b) * log2(g.size)") == "((a + b) * log2(g.size))");
    CHECK(printed_expression("orbit or android") == "(orbit or android)");
    CHECK(printed_expression("levels[1].size") == "levels[1].size");
}

TEST_CASE("every node knows its place") {
    const std::string text =
        "# a comment\n"
        "algorithm ring reduce_scatter(x) over g {\n"
        "    for s in 1 ..< g.size\n"
        "        each r in g, q in 0 ..< 2 where q != r\n"
        "            x[r - s] : r +> r + 1   # wraps\n"
        "    x[0 ..< 2] : 0 -> 1\n"
        "}\n";
    CHECK(printed(text) ==
          "   2:1   algorithm ring reduce_scatter(x) over g\n"
          "   3:5     for s in 1 ..< g.size\n"
          "   4:9       each r in g, q in 0 ..< 2 where (q != r)\n"
          "   5:13        x[(r - s)] : r +> (r + 1)\n"
          "   6:5     x[0 ..< 2] : 0 -> 1\n");
    const dsl::SourceFile file{"t.sched", text};
    const dsl::ast::File tree = dsl::parse(file);
    const auto& loop = std::get<dsl::ast::For>(tree.algorithms[0].body[0].node);
    const auto& each = std::get<dsl::ast::Each>(loop.body[0].node);
    CHECK(each.body[0].span.text() == "x[r - s] : r +> r + 1");
    const auto& transfer = std::get<dsl::ast::Transfer>(each.body[0].node);
    CHECK(transfer.region.span.text() == "x[r - s]");
    CHECK(transfer.destination.span.text() == "r + 1");
    CHECK(each.where->span.text() == "q != r");
    CHECK(loop.binding.range.span.text() == "1 ..< g.size");
}

TEST_CASE("a root follows from or to, and collectives' names are free for other things") {
    CHECK(printed("schedule s reduce(x, root; gather = ring) { reduce x over l to root using gather "
                  "gather x over (p, q) to 3 scatter x over world from root + 1 }") ==
          "   1:1   schedule s reduce(x, root; gather = ring)\n"
          "   1:45    reduce x over l to root using gather\n"
          "   1:82    gather x over (p, q) to 3\n"
          "   1:108   scatter x over world from (root + 1)\n");
    CHECK(printed("algorithm gather gather(scatter, reduce) over broadcast { let gather = 1 for all_reduce "
                  "in broadcast "
                  "scatter[gather] : all_reduce -> reduce scatter : 0 +> 1 each all_gather in broadcast "
                  "scatter.part(0 of 2) : 0 -> 1 }") ==
          "   1:1   algorithm gather gather(scatter, reduce) over broadcast\n"
          "   1:59    let gather = 1\n"
          "   1:74    for all_reduce in broadcast\n"
          "   1:102     scatter[gather] : all_reduce -> reduce\n"
          "   1:141   scatter : 0 +> 1\n"
          "   1:158   each all_gather in broadcast\n"
          "   1:187     scatter.part(0 of 2) : 0 -> 1\n");
    CHECK_THAT(parse_error("schedule s reduce(x, to) { }"), Contains("expected a name here"));
    CHECK_THAT(parse_error("schedule s reduce(x, r) { reduce x over l from 1 to 2 }"), Contains("expected "));
    for (const auto collective : dsl::all_collectives)
        CHECK_THAT(test::check_error("algorithm a sum(x) over g {}"),
                   Contains(std::string(name_of(collective))));
}

TEST_CASE("schedules and topologies parse into what they say") {
    CHECK(
        printed("schedule s all_reduce(x; a = ring, b = 2) { parallel t in 0 ..< 2 { let y = x.part(t of 2)\n"
                " for w in 2 >.. 0 all_gather y over levels[(t + w) mod 2] using a } broadcast x over (p, q) "
                "from 3 using b }") ==
        "   1:1   schedule s all_reduce(x; a = ring, b = 2)\n"
        "   1:45    parallel t in 0 ..< 2\n"
        "   1:69      let y = x.part(t of 2)\n"
        "   2:2       for w in 2 >.. 0\n"
        "   2:19        all_gather y over levels[((t + w) mod 2)] using a\n"
        "   2:69    broadcast x over (p, q) from 3 using b\n");
    const dsl::SourceFile file{"t.sched",
                               "topology c(n = 2) { for l in 0 ..< n level p[n] { medium memory latency "
                               "1.5us bandwidth 8Gb/s shared by q nic 10.0.1.0/24 } }"};
    const dsl::ast::File tree = dsl::parse(file);
    const auto& loop = std::get<dsl::ast::TopologyFor>(tree.topologies[0].body[0].node);
    const auto& level = std::get<dsl::ast::Level>(loop.body[0].node);
    REQUIRE(level.properties.size() == 5);
    CHECK(level.properties[1].value == Approx(1.5e-6));
    CHECK(level.properties[2].value == Approx(1e9));
    CHECK(level.properties[3].text == "q");
    CHECK(level.properties[4].text == "10.0.1.0/24");
}

TEST_CASE("syntax errors say where and what was expected") {
    CHECK_THAT(parse_error("algorithm a all_gather(x) over g { each r in g x[r] : r => 1 }"),
               StartsWith("t.sched:1:57: error: expected '->' or '+>' here"));
    CHECK_THAT(parse_error("algorithm a all_gather(x) over g {\n  for s of 3\n}"),
               StartsWith("t.sched:2:9: error: expected 'in' here"));
    CHECK_THAT(parse_error("algorithm a all_gather(x) over g { for s in 1..3 x : 0 -> 1 }"),
               Contains("hint: a range is 'first ..< end'"));
    CHECK_THAT(parse_error("algorithm a (x) over g {}"), Contains("expected a collective"));
    CHECK_THAT(parse_error("algorithm for all_gather(x) over g {}"), Contains("expected a name here"));
    CHECK_THAT(parse_error("nonsense"),
               StartsWith("t.sched:1:1: error: expected algorithm, collective, import, "
                          "operator, schedule, topology or update here"));
    CHECK_THAT(parse_error("algorithm a all_gather(x) over g {"),
               Contains("t.sched:1:35: error: expected '}' here"));
    CHECK_THAT(
        parse_error("topology t { level a[2] { latency 3 parsecs } }"),
        StartsWith("t.sched:1:36: error: the time 3 has no unit") && Contains("hint: a time is like 5us"));
    CHECK_THAT(parse_error("topology t { level a[2] { latency soon } }"),
               Contains("expected a time such as 3us here"));
    CHECK_THAT(parse_error("topology t { level a[2] { bandwidth 25gb/s } }"),
               StartsWith("t.sched:1:39: error") && Contains("write 25Gb/s for bits"));
    CHECK_THAT(parse_error("algorithm a all_gather(x) over g where 99999999999999999999 {}"),
               Contains("t.sched:1:40: error: this number is larger than 2^63 - 1"));
    CHECK_THAT(parse_error("algorithm a all_gather(x over g {}"), Contains("expected ')' here"));
    CHECK_THAT(parse_error("topology t { level a[2] { width 1GB/s } }"), Contains("expected '}' here"));
    // A comment ends with its line, not with a carriage return.
    CHECK(parse_error("# a comment \r algorithm ( \n") == "");
}

TEST_CASE("a syntax error shows its line with a caret") {
    CHECK(parse_error("schedule s all_reduce(x) {\n\tbroadcast x over\n}") ==
          "t.sched:3:1: error: expected an expression here\n"
          "    3 | }\n"
          "      | ^");
}

TEST_CASE("what is nested too deeply is refused, not crashed upon") {
    const std::string head = "algorithm a all_gather(x) over g where ";
    CHECK_THAT(parse_error(head + std::string(100000, '(')), Contains("nested too deeply"));
    CHECK_THAT(parse_error(head + std::string(100000, '-') + "1 {}"), Contains("nested too deeply"));
    std::string sum = "1";
    for (int i = 0; i < 100000; ++i) sum += "+1";
    CHECK_THAT(parse_error(head + sum + " {}"), Contains("nested too deeply"));
    const auto repeated = [](int times, const std::string& text) {
        std::string all;
        for (int i = 0; i < times; ++i) all += text;
        return all;
    };
    CHECK_THAT(parse_error(head + repeated(10000, "if 1 then ")), Contains("nested too deeply"));
    CHECK_THAT(parse_error(head + repeated(10000, "if 1 then 2 else ")),
               Contains("nested too deeply") && Contains("the limit is 200 levels"));
    CHECK_THAT(parse_error("topology t { " + repeated(10000, "for i in 0 ..< 1 ")),
               Contains("nested too deeply"));
    CHECK_THAT(parse_error("schedule s all_reduce(x) " + repeated(10000, "{ ")),
               Contains("nested too deeply"));
    CHECK(parse_error(head + repeated(190, "(") + "1" + repeated(190, ")") + " {}") == "");
    CHECK(parse_error("algorithm a all_gather(x) over g { " + repeated(300, "for s in g let n = 1 ") + "}") ==
          "");
    std::string loops;
    for (int i = 0; i < 10000; ++i) loops += "for s in 0 ..< 1 ";
    CHECK_THAT(parse_error("algorithm a all_gather(x) over g { " + loops), Contains("nested too deeply"));
    CHECK_THAT(parse_error(std::string(2 << 20, ' ')), Contains("larger than 1 MiB"));
}

TEST_CASE("what is nested too deeply can be written otherwise, also where let names no results") {
    std::string sum = "x";
    for (int i = 0; i < 300; ++i) sum += " + x";
    for (const std::string& text :
         {"schedule s all_reduce(x) { x = " + sum + " }", "operator o(x, y) = " + sum,
          "schedule s all_reduce(x) { let n = " + sum + " }"})
        CHECK_THAT(parse_error(text), Contains("write (a + b) + (c + d) for a + b + c + d, or several "
                                               "statements for one; the limit is 200 levels"));
}

TEST_CASE("references name a schedule and its arguments") {
    const dsl::SourceFile file{"<r>", "flat(ring, 2 * 3)"};
    const dsl::ast::Expression reference = dsl::parse_reference(file);
    CHECK(reference.text == "flat");
    REQUIRE(reference.args.size() == 2);
    CHECK(reference.args[0].text == "ring");
    for (const char* bad : {"", "flat(", "flat)", "2x3", "flat(ring) x", "for"}) {
        const dsl::SourceFile text{"<r>", bad};
        CHECK(error_of([&] { dsl::parse_reference(text); }) != "");
    }
}

TEST_CASE("comparisons do not chain, but may be compared in parentheses") {
    CHECK_THAT(parse_error("algorithm a all_reduce(x) over g where 5 < 3 < 1 { }"),
               Contains("1:46: error: comparisons do not chain") && Contains("write a < b and b < c"));
    CHECK_THAT(parse_error("algorithm a all_reduce(x) over g where 1 == 2 != 3 { }"),
               Contains("do not chain"));
    CHECK(parse_error("algorithm a all_reduce(x) over g where (5 < 3) < 1 and 2 > 1 { }") == "");
    CHECK(parse_error("algorithm a all_reduce(x) over g { for i in 3 > 2 >.. 0 x : 0 -> 1 }") == "");
}

TEST_CASE("a name that hides another is refused, with the place of that one") {
    const auto algorithm = [](const std::string& body) {
        return parse_error("algorithm a broadcast(x, root) over g {" + body + "}");
    };
    CHECK(algorithm("for i in g { let n = 1 } for i in g { let n = 2 } { let n = 3 } let n = 4") == "");
    CHECK_THAT(algorithm("let n = 1 let n = 2"),
               Contains("there is a 'n' here already") && Contains("this one"));
    CHECK_THAT(algorithm("let n = 1 { let n = 2 }"), Contains("there is a 'n' here already"));
    CHECK_THAT(algorithm("for i in g for i in g x : 0 -> 1"), Contains("there is a 'i' here already"));
    CHECK_THAT(algorithm("each i in g, i in g x : 0 -> 1"), Contains("there is a 'i' here already"));
    CHECK_THAT(algorithm("each i in g { let i = 1 x : 0 -> 1 }"), Contains("there is a 'i' here already"));
    for (const char* name : {"x", "root", "g"})
        CHECK_THAT(algorithm("parallel " + std::string(name) + " in g { }"), Contains("here already"));
    for (const char* name : {"levels", "world", "ranks", "auto"})
        CHECK_THAT(algorithm("let " + std::string(name) + " = 1"), Contains("one of the language's own"));
    CHECK_THAT(parse_error("algorithm a all_reduce(x) over x { }"), Contains("there is a 'x' here already"));
    CHECK_THAT(parse_error("schedule s all_reduce(x; a = 1, a = 2) { }"),
               Contains("there is a 'a' here already"));
    CHECK_THAT(parse_error("schedule s all_reduce(x; x = 1) { }"), Contains("there is a 'x' here already"));
    CHECK_THAT(parse_error("schedule s all_reduce(x; ranks = 1) { }"), Contains("one of the language's own"));
    CHECK_THAT(parse_error("topology t(n = 1, n = 2) { level a[n] {} }"),
               Contains("there is a 'n' here already"));
    CHECK_THAT(parse_error("topology t { level world[2] {} }"), Contains("one of the language's own"));
    CHECK(parse_error(
              "topology t(n = 2) { for i in 0 ..< n level a[n] {} for i in 0 ..< n level b[n] {} }") == "");
}

TEST_CASE("what is expected is said in the language's words, never in C++'s") {
    for (const char* text :
         {"topology t() { level a[2] {} }", "schedule s all_gather(x;) { }",
          "schedule s all_gather(x) { all_gather x over () }",
          "algorithm a all_gather(x) over g { x[max()] : 0 -> 1 }",
          "algorithm a all_gather(x) over g { each { } }", "algorithm a all_gather(x) over g { for }",
          "algorithm a all_gather(x) over g where { }", "schedule s all_gather(x) { let }",
          "topology t { level a[2] { medium } }", "algorithm a all_gather(x) over g where if 1 {}",
          "algorithm a all_gather(x) over g where if 1 then 2 {}",
          "algorithm a all_gather(x) over g where if then 2 else 3 {}",
          "algorithm a all_gather(x) over g where if 1 then else 3 {}",
          "algorithm a all_gather(x) over g where 1 + if 1 then 2 else 3 {}",
          "algorithm a all_gather(x) over g where 1 && 2 {}", "algorithm a all_gather(x) over g where 1 | {}",
          "algorithm a all_gather(x) over then where 1 {}",
          "algorithm a all_gather(x) over g where 1 << << 2 {}"}) {
        INFO(text);
        CHECK_THAT(parse_error(text), Contains("expected ") && !Contains("boost") && !Contains("hocket"));
    }
    const dsl::SourceFile call{"<call>", "flat("};
    CHECK_THAT(test::error_of([&] { dsl::parse_reference(call); }), Contains("expected an expression here"));
}
