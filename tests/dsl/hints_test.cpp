// What hands that are used to C, Python or Rust write, and what is said to it.
#include <string>
#include <vector>

#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using test::parse_error;

namespace {

struct Wrong {
    std::string text;
    int line, column;
    std::string said;  // a part of the message, of a note or of the hint
};

void refused(const std::vector<Wrong>& texts) {
    for (const auto& [text, line, column, said] : texts) {
        INFO(text);
        const std::string error = parse_error(text);
        CHECK_THAT(error, StartsWith("t.sched:" + std::to_string(line) + ":" + std::to_string(column) +
                                     ": error: "));
        CHECK_THAT(error, Contains(said));
    }
}

const std::string head = "algorithm a all_gather(x) over g ";

// Statements stand in line 2, from column 5 on.
Wrong in_algorithm(const std::string& statements, int column, const std::string& said, int line = 2) {
    return {head + "{\n    " + statements + "\n}\n", line, column, said};
}

}  // namespace

TEST_CASE("operators of other languages are answered with those of this one") {
    refused({
        in_algorithm("each r in g where r > 0 && r < 3 x[r] : r -> 0", 30, "hint: write `and`"),
        in_algorithm("each r in g where r > 0 || r < 3 x[r] : r -> 0", 30, "hint: write `or`"),
        in_algorithm("each r in g x[r ^ 1] : r -> 0", 21, "exclusive or is `xor`"),
        in_algorithm("each r in g where !r x[r] : r -> 0", 23, "hint: write `not`"),
        in_algorithm("each r in g x[r % 2] : r -> 0", 21, "the remainder is `mod`"),
        in_algorithm("each r in g x[~r] : r -> 0", 19, "there is no complement of bits"),
        in_algorithm("let n = g.size > 2 ? 1 : 0", 24, "if condition then one else other"),
        in_algorithm("for i in 0 ..< 2 { i++ }", 25, "there is no '++': a loop counts by itself"),
        in_algorithm("for i in 0 ..< 2 { i-- }", 25, "there is no '--'"),
        in_algorithm("let i = 0\n    i += 1", 7, "x = x + y; a transfer combines with '+>'", 3),
        {"update u(rate) { w -= rate * g }", 1, 18, "x = x - y"},
        in_algorithm("x : 0 => 1", 11, "'->' overwrites, '+>' combines"),
        in_algorithm("x : 1 <- 0", 11, "data move to the right"),
        in_algorithm("each r in g where r <> 0 x[r] : r -> 0", 26, "unequal is !="),
        in_algorithm("n := 2", 8, "a name is made by: let n = 1"),
    });
}

TEST_CASE("programs of single ranks, lists and early ends are answered with what there is") {
    refused({
        in_algorithm("send(x, 0, 1)\n    recv(x, 1, 0)", 5,
                     "a transfer names both of its ranks: x : root -> q"),
        in_algorithm("barrier()\n    x : 0 -> 1", 5, "nothing has to wait by hand"),
        in_algorithm("if g.size == 1 return\n    x : 0 -> 1", 20, "put the rest into an `else { ... }`"),
        in_algorithm("for i in 0 ..< 8 step 2 { x : 0 -> 1 }", 22, "a range has no step"),
        in_algorithm("let n = g.size // 2", 21, "'/' divides whole numbers"),
        in_algorithm("let order = [0, 2, 1]", 17, "there are no lists"),
        in_algorithm("each r in g where r != 0, q in g x : r -> q", 29, "`where` comes last in the head"),
        {"algorithm a all_gather(x) over g:\n    x : 0 -> 1\n", 1, 33, "write '{' for this ':'"},
        {"algorithm a broadcast(x, root; radix) over g { }", 1, 37,
         "has a value that can be left out: radix = 4"},
        {"schedule s all_reduce(x) { state e = 0 }", 1, 36, "state e like x"},
    });
}

TEST_CASE("one '=' gives a value, and two compare") {
    refused({
        in_algorithm("each r in g where r = 0 x[r] : r -> 1", 25, "a comparison is '=='"),
        in_algorithm("if g.size = 2 { x : 0 -> 1 }", 15, "a comparison is '=='"),
        in_algorithm("let n == 2", 12, "one '=' gives a value; '==' compares"),
        in_algorithm("let n := 2", 11, "one '=' gives a value"),
        in_algorithm("let n = 2\n    x == n", 7, "a comparison is no statement; x = value assigns", 3),
    });
}

TEST_CASE("statements of other languages are answered with those of this one") {
    refused({
        in_algorithm("if g.size == 2 x : 0 -> 1 elif g.size == 3 x : 0 -> 2", 31, "hint: write `else if`"),
        in_algorithm("if g.size == 2 { x : 0 -> 1 } elseif g.size == 3 { }", 35, "hint: write `else if`"),
        in_algorithm("x : 0 -> 1;", 15, "statements need no ';'"),
        in_algorithm("each r in g x[r] : r -> 0 where r != 0", 31, "`where` stands in the head of an each"),
        in_algorithm("for s in 0 ..< 2 where s != 1 x : 0 -> 1", 22, "`where` stands in the head of an each"),
        {"operator odd(a, b; z = 2) = a + b", 1, 18, "operators and collectives have no parameters"},
        in_algorithm("if g.size > 2: x : 0 -> 1", 18, "a body needs no ':'"),
        in_algorithm("for i in range(3): x : 0 -> 1", 22, "a body needs no ':'"),
        in_algorithm("if g.size > 2 then x : 0 -> 1", 19, "`then` is for values"),
        in_algorithm("while g.size > 2 { x : 0 -> 1 }", 5, "loops of known length"),
        in_algorithm("for (int i = 0; i < 2; i++) { x : 0 -> 1 }", 9, "a loop is: for i in 0 ..< n"),
        in_algorithm("for i = 0 to 3 { x : 0 -> 1 }", 11, "a loop is: for i in 0 ..< n"),
        in_algorithm("For i in 0 ..< 2 x : 0 -> 1", 5, "did you mean 'for'?"),
        in_algorithm("def f(i) = i + 1", 5, "a function is: let f(i) = i + 1"),
        in_algorithm("return x", 5, "nothing is returned"),
        in_algorithm("var n = 2", 5, "a name is made by: let n = 1"),
        in_algorithm("send x to 1", 5, "a transfer names both ends"),
        in_algorithm("let n = if g.size > 2 then 1\n    x : 0 -> n", 5, "a value needs both sides", 3),
        in_algorithm("each r in g let q = 2 where q != 0 let z = 1 x : 0 -> 1", 40,
                     "lets stand before `where`"),
        {"schedule s all_reduce(x) { all_reduce x on world }", 1, 41, "all_reduce x over world"},
        {"schedule s all_reduce(x) { all_reduce(x) }", 1, 38, "all_reduce x over world"},
        {"schedule s all_reduce(x) { x.all_reduce(world) }", 1, 30, "all_reduce x over world"},
        {"schedule s all_reduce(x) { let s = x.topk(0.01) all_gather s over world }", 1, 38,
         "let s = mstopk(x, 0.01)"},
        {"schedule s all_reduce(x) { x = x.abs() }", 1, 34, "functions stand before: abs(x)"},
        {"schedule s all_reduce(x) { let y = x.split(0 of 2) }", 1, 38, "let y = x.part(0 of 2)"},
        {"schedule s all_reduce(x) { state e likke x }", 1, 36, "did you mean 'like'?"},
        {"schedule s all_reduce(x) { state e: float32 like x }", 1, 35, "names have no types"},
        {"schedule s all_reduce(x) { all_reduce x ovr world }", 1, 41, "did you mean 'over'?"},
        {"schedule s all_reduce(x) { all_reduce x over level[0] }", 1, 46, "did you mean `levels`?"},
        {"schedule s broadcast(x, root) { broadcast x over world root 0 }", 1, 56, "behind `from` or `to`"},
        {"schedul s all_reduce(x) { }", 1, 1, "did you mean 'schedule'?"},
        in_algorithm("x[0].copy(0, 1)", 10, "a transfer is: x[r] : r -> q"),
        in_algorithm("x : 0 -> 1 -> 2", 16, "one source and one destination"),
        in_algorithm("let n =\n    .5", 5, "write 0.5 for .5", 3),
        {"schedule s all_reduce(x) { all_reduce x over rail; }", 1, 50, "statements need no ';'"},
        {"schedule s all_gather(x) { all_gather x over world as int8 keeping e using ring }", 1, 70,
         "`using` comes before the format"},
        in_algorithm("let n =\n    each r in g x : r -> 0", 11, "the value behind this '=' is missing"),
        in_algorithm("let n: int = 2", 10, "names have no types"),
        in_algorithm("let (a, b) = 2", 9, "a let makes one name"),
        in_algorithm("let n = 2 if g.size > 2 else 1", 29, "if condition then one else other"),
        in_algorithm("x : 0 -> 1)", 15, "no '(' belongs to this ')'"),
        in_algorithm("x[0, 1] : 0 -> 1", 8, "x has one index"),
        in_algorithm("each r in g q in g x[r] : r -> q", 19, "with ',': each r in g, q in g"),
        in_algorithm("each r in g whero r > 0 x[r] : r -> 0", 17, "did you mean 'where'?"),
        in_algorithm("x : 0 -> 1 on nic 0", 16, "a level of the topology does"),
        {"schedule s all_reduce(x) { reduce_scatter x over world as int8 keep e }", 1, 64, "write `keeping`"},
        {"schedule s all_reduce(x) { reduce_scatter x over world usingg ring }", 1, 56,
         "did you mean 'using'?"},
        {"schedule s all_reduce(x) { reduce_scatter x over world using all_gather x over world }", 1, 56,
         "`using` needs the name of an algorithm"},
        {"schedule s all_reduce(x) { all_reduce x over [world] }", 1, 46,
         "several levels stand in parentheses"},
        {"schedule s all_reduce(x) { let s = mstopk(x, 1%) }", 1, 47, "1 % as a fraction is 0.01"},
        {"schedule s all_gather(x) { all_gather x over world as int8 keeping e keeping f }", 1, 70,
         "one state keeps the rest"},
        {"schedule s all_gather(x) { all_gather x as int8 over world }", 1, 41,
         "all_gather x over world as int8"},
        {"schedule s all_gather(x) { all_gather x over world keeping e }", 1, 52, "as int8 keeping e"},
        {"schedule s all_gather(x) { all_gather x over world as int8 using ring }", 1, 60,
         "`using` comes before the format"},
        {"schedule s all_gather(x) { let as = 3 }", 1, 32, "'as' is a word of the language"},
    });
}

TEST_CASE("comments, ranges, slices and numbers of other languages are recognized") {
    refused({
        in_algorithm("x : 0 -> 1 // all", 17, "a comment begins with '#'"),
        in_algorithm("/* all */ x : 0 -> 1", 5, "a comment begins with '#'"),
        in_algorithm("-- all\n    x : 0 -> 1", 5, "a comment begins with '#'"),
        in_algorithm("for s in 0..3 x : 0 -> 1", 15, "a range is 'first ..< end'"),
        in_algorithm("for s in 0 ... 3 x : 0 -> 1", 16, "a range is 'first ..< end'"),
        in_algorithm("for s in 0..=3 x : 0 -> 1", 15, "first ..< last + 1"),
        in_algorithm("x[0:2] : 0 -> 1", 8, "a slice: x[first ..< end]"),
        in_algorithm("x[0..2] : 0 -> 1", 8, "a slice: x[first ..< end]"),
        in_algorithm("x[0, 2] : 0 -> 1", 8, "are a slice: x[first ..< end]"),
        in_algorithm("let n = g.size()", 20, "a member, as g.size, has no parentheses"),
        in_algorithm("let n = .5", 13, "write 0.5 for .5"),
        in_algorithm("let n = 1. + 2", 16, "write 1.0 for 1."),
        in_algorithm("let n = 0x10", 13, "numbers are decimal"),
        in_algorithm("let n = 10K", 13, "numbers are decimal"),
        in_algorithm("let n = \"ring\"", 13, "no texts in quotes"),
        in_algorithm("x : 0 -> \\\n    1", 14, "line breaks mean nothing"),
    });
}

TEST_CASE("words of the language are no names") {
    refused({
        in_algorithm("let to = 1", 9, "hint: 'to' is a word of the language: choose another name"),
        in_algorithm("for in in 0 ..< 2 x : 0 -> 1", 9, "'in' is a word of the language"),
        in_algorithm("x[over] : 0 -> 1", 7, "'over' is a word of the language"),
        {"algorithm level all_gather(x) over g {}", 1, 11, "'level' is a word of the language"},
        {"schedule s reduce(x, to) {}", 1, 22, "'to' is a word of the language"},
    });
}

TEST_CASE("headers of other shapes are answered with theirs") {
    refused({
        {"algorithm a(x) all_gather over g {}", 1, 12, "algorithm NAME COLLECTIVE(x) over g"},
        {"algorithm a all_gather(x) {}", 1, 27, "an algorithm runs over a group"},
        {"schedule s all_reduce(x) over g { }", 1, 26, "a schedule runs on all ranks"},
        {"schedule s(x) {", 1, 11, "schedule NAME COLLECTIVE(x)"},
        {"schedule s all_reduce() {", 1, 23, "name the buffer: all_reduce(x)"},
        {"schedule s all_reduce(x, tiles = 4) {", 1, 32, "parameters stand behind ';'"},
        {"schedule s broadcast(x, root, tiles = 4) {", 1, 29, "parameters stand behind ';'"},
        {"schedule s all_reduce(x; n: int = 4) {", 1, 27, "names have no types"},
        {"schedule s all_reduce(x) approximatte {", 1, 26, "did you mean 'approximate'?"},
        {"schedule s all_reduce(x) where ranks == 2 lossy {", 1, 43, "`lossy` stands before `where`"},
        {"algorithm ring-one all_gather(x) over g {", 1, 15, "a name consists of letters, digits and '_'"},
        {"algorithm 2ring all_gather(x) over g {", 1, 11, "a name begins with a letter"},
        {"operator o(a, b) comutative = a + b", 1, 18, "did you mean 'commutative'?"},
        {"operator o(a, b) commutative, associative = a + b", 1, 29, "the words stand without ','"},
        {"operator o(a, b, c) = a + b", 1, 16, "an operator joins two elements"},
        {"topology t(n) { level a[n] {} }", 1, 13, "parameters have values: topology NAME(n = 4)"},
        {"topology t { level a { latency 3us } }", 1, 22, "a level has a number of ranks"},
        {"topology t { level a[2] { speed 3GB/s } }", 1, 27, "a level has no 'speed'"},
        {"topology t { level a[2] { medium memory level b[2] { } }", 1, 41,
         "the '}' of the level before is missing"},
        {"topology t { level a[2] { medium memory, latency 3us } }", 1, 40, "properties stand without ','"},
        {"collective c(x) over g { before each r in g x[r] : r after each r in g x[r] : r -> r }", 1, 81,
         "a contract says who holds what"},
        {"import 'ring.sched'", 1, 8, "write double quotes"},
        {"import \"ring.sched", 1, 8, "this quote has no end in its line"},
        {"def ring(x) {}", 1, 1, "a definition begins with its kind"},
        {"import ring", 1, 8, "import \"rings.sched\""},
        {"include ring", 1, 1, "import \"rings.sched\""},
        {"topology t { level a(2) { latency 3us } }", 1, 21, "in brackets: level host[4]"},
        {"topology t { level a[2] { latency = 3us } }", 1, 35, "its value behind it: latency 3us"},
        {"operator o(a, b) { a + b }", 1, 18, "operator NAME(a, b) = a + b"},
    });
    // Files could define these.
    CHECK_THAT(test::check_error("schedule s all_reduce(x) { allreduce x over world }"),
               Contains("did you mean 'all_reduce'?"));
    CHECK_THAT(test::check_error("algorithm a allgather(x) over g {}"),
               Contains("did you mean 'all_gather'?"));
}

TEST_CASE("what has no end is shown where it begins") {
    const std::string open = "note: this one is open";
    refused({
        {head + "{\n    x : 0 -> 1\n", 3, 1, "t.sched:1:34: " + open},
        {head + "{\n    x : 0 -> 1\n\nalgorithm b all_gather(x) over g {}", 4, 1, "t.sched:1:34: " + open},
        // The loop's, as the column of the last '}' says.
        {head + "{\n    for k in g {\n        x : 0 -> 1\n\n    x : 1 -> 0\n}\n", 7, 1,
         "t.sched:2:16: " + open},
        {head + "{\n    x : (0 -> 1\n}", 2, 12, "t.sched:2:9: " + open},
        {head + "{\n    x[0 : 0 -> 1\n}", 2, 9, "t.sched:2:6: " + open},
        {head + "{\n    let n = (1 + 2\n}", 3, 1, "t.sched:2:13: " + open},
        {head + "{\n    x : 0 -> 1\n}\n}\n", 4, 1, "there is a '}' too many before"},
    });
}

TEST_CASE("characters that look like others are named") {
    refused({
        in_algorithm("x :\xc2\xa0 0 -> 1", 8, "this is a no-break space: write a space"),
        in_algorithm("x : 0 \xe2\x86\x92 1", 11, "this is an arrow: write ->"),
        in_algorithm("x : 0 \xe2\x88\x92> 1", 11, "this is a minus sign: write -"),
        in_algorithm("let \xc3\xa4 = 1", 9, "outside of comments, schedules consist of ASCII characters"),
        {"\xef\xbb\xbf" + head + "{}", 1, 1, "begins with a byte order mark"},
        {std::string("\xff\xfe#\0\n\0", 6), 1, 1, "seems to be UTF-16"},
        {std::string("#\0\n\0", 4), 1, 1, "seems to be UTF-16"},
        {std::string("\0#\0\n", 4), 1, 1, "seems to be UTF-16"},
        {head + std::string("{ x : 0\0 -> 1 }", 15), 1, 41, "a byte 0 is here"},
        {head + "{\r x : 0 -> 1\r}", 1, 35, "lines end with a carriage return alone"},
        in_algorithm("each r in g where r !\xe2\x80\x8b= 0 x : 0 -> 1", 25, "a space of no width: delete it"),
        in_algorithm("let n = \xe2\x80\x9cring\xe2\x80\x9d", 13, "a curly quote"),
    });
    CHECK(parse_error("# \xc2\xa0 \xe2\x86\x92 \xef\xbb\xbf\n" + head + "{}") == "");
}

TEST_CASE("a function cannot call itself") {
    refused({in_algorithm("let f(i) = if i < 2 then 1 else i * f(i - 1)\n    x : 0 -> f(1)", 41,
                          "a function cannot call itself")});
    CHECK(parse_error(head + "{ let f(i) = i { let h(i) = f(f(i)) } }") == "");
}

TEST_CASE("using takes an algorithm of the collective") {
    const auto error = [](const std::string& use, const std::string& more = "") {
        return test::check_error("schedule s all_reduce(x) { " + use + " }" + more);
    };
    CHECK_THAT(error("all_reduce x over world using halving"),
               Contains("there is no algorithm 'halving' for all_reduce") &&
                   Contains("hint: 'halving' is an algorithm for reduce_scatter; there are: "));
    CHECK_THAT(error("all_reduce x over world using blueconnect"),
               Contains("hint: 'blueconnect' is a schedule, and `using` takes algorithms; there are: "));
    CHECK_THAT(error("all_reduce x over world using s"), Contains("'s' is a schedule"));
}
