// The formatter: what it makes of texts, and that it keeps programs and comments.
#include "dsl/syntax/format.hpp"

#include <algorithm>
#include <filesystem>
#include <random>
#include <regex>
#include <sstream>

#include "dsl/base/named_file.hpp"
#include "dsl/syntax/tokens.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/dsl/format_rules.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;

namespace {

std::string format(const std::string& text) {
    return dsl::formatted({"t.sched", text});
}

std::vector<std::string> library_files() {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(HOCKET_SCHEDULES_DIR))
        if (entry.path().extension() == ".sched") files.push_back(entry.path());
    REQUIRE(files.size() >= 20);
    return files;
}

// The same tokens with other white space, line breaks and comments between them.
std::string laid_out_anew(const std::string& text, std::mt19937& random) {
    const dsl::SourceFile file{"t.sched", text};
    std::string result;
    std::size_t end = 0;
    for (const dsl::Token& token : dsl::tokens_of(file)) {
        const bool may_touch = token.begin == end;
        switch (random() % 10) {
            case 0:
                result += "\n";
                break;
            case 1:
                result += "\n\n\n\t ";
                break;
            case 2:
                result += " # note " + std::to_string(random() % 100) + "  \n";
                break;
            case 3:
                result += "\r\n  # " + std::to_string(random() % 100) + "\n\n";
                break;
            case 4:
                result += std::string(1 + random() % 9, ' ');
                break;
            default:
                result += may_touch ? "" : " ";
        }
        result += token.text;
        if (token.kind == dsl::Token::Kind::comment) result += "\n";
        end = token.end;
    }
    return result;
}

}  // namespace

TEST_CASE("the library is formatted") {
    for (const std::string& path : library_files()) {
        INFO(path);
        const std::string text = read_text(path);
        CHECK(format(text) == text);
    }
}

TEST_CASE("a text without indentation gets it back") {
    for (const std::string& path : library_files()) {
        INFO(path);
        const std::string text = read_text(path);
        CHECK(format(std::regex_replace(text, std::regex("(^|\n) +"), "$1")) == text);
    }
}

TEST_CASE("formatting keeps the program and the comments, whatever the layout, and once is enough") {
    std::mt19937 random(7);
    for (const std::string& path : library_files()) {
        const std::string text = "import \"a b.sched\"\nimport \"c # d.sched\"  # why\n\n" + read_text(path);
        for (int round = 0; round < test::in_long_form(40, 12); ++round) {
            const dsl::SourceFile file{"t.sched", laid_out_anew(text, random)};
            INFO(path << "\n" << file.text);
            CHECK(test::format_fault(file) == "");
        }
    }
}

TEST_CASE("spaces stand where the library has them") {
    CHECK(format("algorithm a   all_gather( x ;n=- 1 )over g where-1<n and( n*2 )** 2!=n - - 1{\n"
                 "each r in g,q in 0..<2**n let c=r+q where not(q==r)\n"
                 "x [ r ].part(0 of 2):r->q\n"
                 "}") ==
          "algorithm a all_gather(x; n = -1) over g where -1 < n and (n * 2)**2 != n - -1 {\n"
          "    each r in g, q in 0 ..< 2**n let c = r + q where not (q == r)\n"
          "        x[r].part(0 of 2) : r -> q\n"
          "}\n");
    CHECK(format("schedule s reduce(x,root) with w,v approximate lossy { reduce (x) over(a,b)to root using "
                 "t(1) }") ==
          "schedule s reduce(x, root) with w, v approximate lossy { reduce (x) over (a, b) to root using "
          "t(1) }\n");
    CHECK(format("topology t(n=2){level a[n]{medium shm latency 3us bandwidth 1e1GB/s}\n"
                 "level latency[2]{nic fd00:1::/64 shared by latency latency 2us}level c[2]{ }}") ==
          "topology t(n = 2) {\n"
          "    level a[n] { medium shm  latency 3us  bandwidth 1e1GB/s }\n"
          "    level latency[2] { nic fd00:1::/64  shared by latency  latency 2us }\n"
          "    level c[2] {}\n"
          "}\n");
    CHECK(format("operator o(a,b)commutative=a+b") == "operator o(a, b) commutative = a + b\n");
    CHECK(format("import   \"a  b.sched\"import\"c.sched\" operator o(a, b) = a + b") ==
          "import \"a  b.sched\"\nimport \"c.sched\"\noperator o(a, b) = a + b\n");
    CHECK(format("") == "");
    CHECK(format("\n\n # alone") == "# alone\n");
}

TEST_CASE("statements of a block with several lines stand on lines of their own") {
    CHECK(format("algorithm a all_gather(x) over g\n{ let n = 2 if n == 1\n{ x : 0 -> 1 }\nelse if n == 2 {\n"
                 "x : 1 -> 0 } else\nx : 0 -> 1 { let m = 1 } } algorithm b all_gather(x) over g {\n\n\n}") ==
          "algorithm a all_gather(x) over g {\n"
          "    let n = 2\n"
          "    if n == 1 { x : 0 -> 1 } else if n == 2 {\n"
          "        x : 1 -> 0\n"
          "    } else\n"
          "        x : 0 -> 1\n"
          "    { let m = 1 }\n"
          "}\n"
          "algorithm b all_gather(x) over g {}\n");
}

TEST_CASE("comments and single blank lines stay where they are") {
    CHECK(format("# head\n\n\n\nalgorithm a all_gather(x) over g  # the group\n"
                 "        # of all\n{ # begins\n\n# first\nfor s in 0 ..< 2 # rounds\n# each\neach r in g\n\n"
                 "x : 0 -> 1\n# last\n}\n# end\n\n\n") ==
          "# head\n\n"
          "algorithm a all_gather(x) over g  # the group\n"
          "# of all\n"
          "{  # begins\n\n"
          "    # first\n"
          "    for s in 0 ..< 2  # rounds\n"
          "        # each\n"
          "        each r in g\n\n"
          "            x : 0 -> 1\n"
          "    # last\n"
          "}\n"
          "# end\n");
}

TEST_CASE("what goes on in another line is indented by what it goes on from") {
    CHECK(format("schedule s all_reduce(x; a = 1,\nb = 2)\nwith w {\nx = f(x,\ng(\n1,\n2\n),\n3)\n+ 1\n}") ==
          "schedule s all_reduce(x; a = 1,\n"
          "                      b = 2)\n"
          "        with w {\n"
          "    x = f(x,\n"
          "          g(\n"
          "              1,\n"
          "              2\n"
          "          ),\n"
          "          3)\n"
          "          + 1\n"
          "}\n");
}

TEST_CASE("gaps stay where they make columns, and nowhere else") {
    const std::string columns =
        "schedule s all_reduce(x) {\n"
        "    for l in levels          reduce_scatter x over l     # down\n"
        "    for l in levels.reversed all_gather     x over l     # up\n"
        "    for l in levels          all_reduce     x over l\n"
        "}\n";
    CHECK(format(columns) == columns);
    CHECK(format("schedule s all_reduce(x) {\n"
                 "    for l in levels      all_reduce    x     over   l    # one\n"
                 "    for l in levels.reversed all_gather x   over  l         # other\n"
                 "}\n") ==
          "schedule s all_reduce(x) {\n"
          "    for l in levels  all_reduce x over l  # one\n"
          "    for l in levels.reversed all_gather x over l  # other\n"
          "}\n");
}

TEST_CASE("a text that does not parse is not formatted") {
    CHECK_THAT(test::error_of([] { format("algorithm a all_gather(x) over g {"); }),
               Contains("t.sched:1:35: error: expected '}' here"));
}
