// Warnings about right definitions.
#include <filesystem>
#include <string>
#include <vector>

#include "dsl/planning/check_files.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using dsl::Collective;

namespace {

// Returns the warnings as "LINE: message". The text must be right.
std::vector<std::string> warnings_of(const std::string& text,
                                     const std::vector<std::string>& topologies = {}) {
    dsl::CheckOptions options;
    options.files = {"warned.sched"};
    options.texts = {{"warned.sched", text}};
    options.topologies = topologies;
    options.search_path = {HOCKET_SCHEDULES_DIR};
    std::vector<std::string> warnings;
    const dsl::CheckResult result = dsl::check_files(
        options, {[](const dsl::RightDefinition&) {},
                  [&](const dsl::Report& report) {
                      INFO(render(report));
                      CHECK(report.is_warning);
                      warnings.push_back(std::to_string(report.place.begin.line) + ": " + report.message);
                  }});
    CHECK(result.wrong == 0);
    CHECK(result.warnings == static_cast<int>(warnings.size()));
    return warnings;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("the library does nothing in vain") {
    dsl::CheckOptions options;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(HOCKET_SCHEDULES_DIR))
        if (entry.path().extension() == ".sched") options.files.push_back(entry.path());
    REQUIRE(options.files.size() > 20);
    options.search_path = {HOCKET_SCHEDULES_DIR};
    options.group_sizes = {2, 3, 4, 6, 8};
    const dsl::CheckResult result = dsl::check_files(options, {[](const dsl::RightDefinition&) {},
                                                               [](const dsl::Report& report) {
                                                                   if (report.is_warning)
                                                                       FAIL_CHECK(render(report));
                                                               }});
    CHECK(result.warnings == 0);
}

TEST_CASE("a statement that brings what is there is told, and only that") {
    CHECK(warnings_of("algorithm twice all_gather(x) over g {\n"
                      "    each r in g, q in g where q != r\n"
                      "        x[r] : r -> q\n"
                      "    for s in 1 ..< g.size\n"
                      "        each r in g\n"
                      "            x[r - s + 1] : r -> r + 1\n"
                      "}\n") == Lines{"6: all that this transfer brings is there already"});
    // Ranks that have added up in different orders have different bits, and a broadcast makes them equal.
    const auto then_broadcast = [](const std::string& schedule) {
        return warnings_of("schedule equal all_reduce(x) {\n    all_reduce x over world using " + schedule +
                           "\n    broadcast x over world from 0 using binomial\n}\n");
    };
    CHECK(then_broadcast("exchange").empty());
    CHECK(then_broadcast("ring") == Lines{"3: all that this statement brings is there already"});
}

TEST_CASE("a transfer whose data nobody needs is told, and so is one that is overwritten") {
    CHECK(warnings_of("algorithm a reduce(x, root) over g {\n"
                      "    each q in g where q != root\n"
                      "        x : q +> root\n"
                      "    each q in g where q != root\n"
                      "        x : root -> q\n"
                      "}\n") == Lines{"5: no result needs what this transfer brings"});
    CHECK(warnings_of("algorithm a broadcast(x, root) over g where g.size > 1 {\n"
                      "    x : root -> root + 1\n"
                      "    each q in g where q != root\n"
                      "        x : root -> q\n"
                      "}\n")
              .empty());  // on more than two ranks each brings something
}

TEST_CASE("what the proof needs is not needless, whatever becomes of it") {
    // What line 3 brings, line 6 sends on, where it is there already. Without line 3 it would send nothing.
    CHECK(warnings_of("algorithm a gather(x, root) over g {\n"
                      "    each q in g where q != root\n"
                      "        x[q - 1] : q - 1 -> q\n"
                      "    for c in 0 ..< 2\n"
                      "        each r in g where r != root\n"
                      "            x[r - c] : r -> root\n"
                      "}\n")
              .empty());
}

TEST_CASE("what is only sent on is needed") {
    CHECK(warnings_of("algorithm relayed gather(x, root) over g where g.size > 2 {\n"
                      "    each q in g where q != root and (root + 1) mod g.size != q\n"
                      "        x[q] : q -> root + 1\n"
                      "    each q in g where q != root\n"
                      "        x[q] : root + 1 -> root\n"
                      "}\n")
              .empty());
}

TEST_CASE("a transfer that some arguments need is needed") {
    CHECK(warnings_of("algorithm a all_gather(x; again = 0) over g {\n"
                      "    each r in g, q in g where q != r and (again == 0 or q != r + 1)\n"
                      "        x[r] : r -> q\n"
                      "    each r in g where g.size > 1\n"
                      "        x[r] : r -> r + 1\n"
                      "}\n"
                      "schedule s all_gather(x) {\n"
                      "    all_gather x over world using a(1)\n"
                      "}\n")
              .empty());
}

TEST_CASE("a transfer that is needed on some groups only is needed") {
    CHECK(warnings_of("algorithm a all_gather(x) over g {\n"
                      "    each r in g, q in g where q != r and q < 5\n"
                      "        x[r] : r -> q\n"
                      "    each r in g, q in g where q != r and q >= 4\n"
                      "        x[r] : r -> q\n"
                      "}\n")
              .empty());
}

TEST_CASE("names without a use are told") {
    CHECK(warnings_of("algorithm a all_gather(x; radix = 2, width = 3) over g {\n"
                      "    let n = g.size\n"
                      "    let f(i) = i + n\n"
                      "    let unused(i) = f(i)\n"
                      "    each r in g, q in g let d = q - r where q != r\n"
                      "        x[r] : r -> q\n"
                      "}\n"
                      "schedule s all_gather(x; inner = a) {\n"
                      "    all_gather x over world using inner\n"
                      "}\n") ==
          Lines{"1: the parameter 'radix' is never used", "1: the parameter 'width' is never used",
                "4: the function 'unused' is never used", "5: the name 'd' is never used"});
    CHECK(warnings_of("update u(rate, decay = 0.5) {\n"
                      "    state m like w\n"
                      "    state v like w\n"
                      "    m = decay * m + g / workers\n"
                      "    v = g\n"
                      "    w = w - rate * m\n"
                      "}\n") == Lines{"3: the state 'v' is never used"});
    // Each is a name of its own.
    CHECK(warnings_of("algorithm a all_gather(x) over g {\n"
                      "    each r in g, q in g let d = q - r where d != 0\n"
                      "        x[r] : r -> q\n"
                      "    each r in g, q in g let d = q - r where g.size < 0\n"
                      "        x[r] : r -> q\n"
                      "}\n") == Lines{"4: the name 'd' is never used"});
}

TEST_CASE("without a needless statement a schedule is still right, and with one it is told") {
    // Any right start, and behind it any statement: it is needless exactly if leaving it out leaves the same
    // bits. All ranks have the sum of one rank, so each later copy of it is.
    for (const char* first :
         {"reduce x over world to 0 using direct  broadcast x over world from 0 using direct",
          "all_reduce x over world using ring"})
        for (const char* second :
             {"broadcast x over world from 0 using direct", "broadcast x over world from 0 using binomial",
              "broadcast x over world from 1 using chain", "broadcast x over levels[0] from 0 using knomial"})
            for (const char* topology : {"2", "5", "8", "2x3", "3x2x2"}) {
                INFO(first << "; " << second << " on " << topology);
                const std::string head = "schedule s all_reduce(x) {\n" + std::string(first) + "\n";
                CHECK(warnings_of(head + "}\n", {topology}).empty());
                CHECK(warnings_of(head + second + "\n}\n", {topology}) ==
                      Lines{"3: all that this statement brings is there already"});
            }
}

TEST_CASE("elements that are left out and kept by nobody are told") {
    const auto all_reduce = [](const std::string& body) {
        return warnings_of("schedule s all_reduce(x) approximate {\n" + body + "}\n", {"3"});
    };
    const std::string lost = "the elements that are not selected are lost";
    CHECK(all_reduce("    reduce_scatter x over world as mstopk(0.1)\n    all_gather x over world\n") ==
          Lines{"2: " + lost});
    CHECK(all_reduce("    let s = mstopk(x, 0.1)\n    all_gather s over world\n    x = sum(s)\n") ==
          Lines{"2: " + lost});
    CHECK(all_reduce("    state e like x\n"
                     "    reduce_scatter x over world as mstopk(0.1) keeping e\n"
                     "    all_gather x over world\n")
              .empty());
    // The state keeps something else.
    CHECK(all_reduce("    state v like x\n"
                     "    let s = mstopk(x, 0.1)\n"
                     "    all_gather s over world\n"
                     "    x = sum(s)\n"
                     "    v = 0.9 * v + x\n"
                     "    x = v\n") == Lines{"3: " + lost});
    CHECK(all_reduce("    state e like x\n"
                     "    e = e + x\n"
                     "    let s = mstopk(e, 0.1)\n"
                     "    e = e - dense(s)\n"
                     "    all_gather s over world\n"
                     "    x = sum(s)\n")
              .empty());
    CHECK(all_reduce("    reduce_scatter x over world as mstopk(1)\n    all_gather x over world\n").empty());
    CHECK(warnings_of("schedule s all_reduce(x) approximate lossy {\n"
                      "    reduce_scatter x over world as mstopk(0.1)\n    all_gather x over world\n}\n",
                      {"3"})
              .empty());
    // Formats that round keep something of each element.
    CHECK(
        all_reduce("    reduce_scatter x over world as int4\n    all_gather x over world as int4\n").empty());
}

TEST_CASE("warnings are allowed by comments, on their line, the line before, and for a whole definition") {
    const std::string lossy =
        "schedule s all_reduce(x) approximate {\n"
        "    reduce_scatter x over world as mstopk(0.1)\n"
        "    all_gather x over world as mstopk(0.1)\n"
        "}\n";
    const auto with = [&](const std::string& before, const std::string& inserted) {
        std::string text = lossy;
        return warnings_of(text.insert(text.find(before) + before.size(), inserted), {"3"});
    };
    const std::string lost = "the elements that are not selected are lost";
    CHECK(with("", "") == Lines{"2: " + lost, "3: " + lost});
    CHECK(with("mstopk(0.1)", "  # schedc: allow lossy") == Lines{"3: " + lost});
    CHECK(with("{\n", "    # schedc: allow needless, lossy\n    # for a comparison\n") ==
          Lines{"5: " + lost});
    CHECK(with("", "# For a comparison.\n# schedc: allow lossy\n").empty());
    CHECK(with("",
               "# schedc: allow lossy\nalgorithm a all_gather(x; k = 2) over g {\n"
               "    each r in g, q in g where q != r\n        x[r] : r -> q\n}\n") ==
          Lines{"2: the parameter 'k' is never used", "7: " + lost, "8: " + lost});
    CHECK(with("", "# schedc: allow unused\n") == Lines{"3: " + lost, "4: " + lost});
    CHECK(with(" over world", "\n  # schedc: allow lossy\n ") == Lines{"5: " + lost});
    CHECK(with("", "#schedc:  allow\tneedless lossy\n").empty());
    CHECK(with("", "# schedc: allow lossy\r\n").empty());
    for (const char* comment : {"# schedc: allow", "# schedc: lossy", "#\tschedc: deny lossy"})
        CHECK(with("", std::string(comment) + "\n") ==
              Lines{"1: this comment allows nothing", "3: " + lost, "4: " + lost});
    CHECK(with("as mstopk(0.1)\n}\n", "# schedc: allow unusd\n") ==
          Lines{"2: " + lost, "3: " + lost, "5: there is no warning 'unusd'"});
    CHECK(with("", "# schedc: allow lossy, needles\n") == Lines{"1: there is no warning 'needles'"});
    CHECK(with("as mstopk(0.1)\n}\n", "# schedc: allow lossy\n") == Lines{"2: " + lost, "3: " + lost});
}
