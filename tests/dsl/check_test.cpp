#include "dsl/planning/check_files.hpp"

#include <filesystem>

#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using dsl::Collective;
using test::check_error;

namespace {

// What `schedc check` says of a file with this text.
std::string check_all_error(const std::string& text) {
    const test::TemporaryFolder folder;
    folder.write("t.sched", text);
    dsl::CheckOptions options;
    options.files = {folder.path() + "/t.sched"};
    options.search_path = {HOCKET_SCHEDULES_DIR};
    std::string said;
    dsl::check_files(options,
                     {[](const auto&) {}, [&](const dsl::Report& report) { said += render(report); }});
    return said;
}

}  // namespace

TEST_CASE("schedules are found by name, by name with arguments, in files, and in files by name") {
    const auto name = [](const std::string& schedule) {
        return dsl::check_schedule(test::request(Collective::all_reduce, schedule, "4"))->name();
    };
    const std::string folder = HOCKET_SCHEDULES_DIR;
    CHECK(name("ring") == "ring");
    CHECK(name("flat") == "flat(ring, ring)");
    CHECK(name("flat(halving)") == "flat(halving, ring)");
    CHECK(name("flat(halving, direct)") == "flat(halving, direct)");
    CHECK(name(folder + "/ring.sched") == "ring");
    CHECK(name(folder + "/flat.sched:flat(direct)") == "flat(direct, ring)");
    CHECK(name("") == "halving");  // the cheapest at 1 MiB
}

TEST_CASE("what does not exist is named, with what does") {
    const auto error = [](Collective collective, const std::string& schedule,
                          const std::string& topology = "4") {
        return test::error_of([&] { dsl::check_schedule(test::request(collective, schedule, topology)); });
    };
    CHECK_THAT(
        error(Collective::all_reduce, "rnig"),
        Contains("no schedule 'rnig' for all_reduce (did you mean 'ring'?)") && !Contains("there are"));
    CHECK_THAT(error(Collective::all_reduce, "hlving"), Contains("(did you mean 'halving'?)"));
    CHECK_THAT(error(Collective::all_reduce, "nothing_like_it"),
               !Contains("did you mean") && Contains("there are: blueconnect, bml"));
    CHECK_THAT(error(Collective::all_reduce, "ring", "bcub"), Contains("(did you mean 'bcube'?)"));
    CHECK_THAT(error(Collective::all_reduce, "ring", "2,3"), Contains("levels are joined by 'x'"));
    CHECK_THAT(error(Collective::all_reduce, "/nowhere/x.sched"), Contains("cannot read /nowhere/x.sched"));
    CHECK_THAT(error(Collective::all_reduce, "flat(rnig)"),
               Contains("no algorithm 'rnig' for reduce_scatter") && Contains("direct, halving, pat, ring"));
    CHECK_THAT(error(Collective::all_reduce, "flat(1)"),
               Contains("expected an algorithm, but 'scatter' is a number"));
    CHECK_THAT(error(Collective::all_reduce, "flat(ring, ring, ring)"),
               Contains("flat takes at most 2 arguments"));
    CHECK_THAT(error(Collective::broadcast, std::string(HOCKET_SCHEDULES_DIR) + "/ring.sched"),
               Contains("ring.sched has no schedule for broadcast"));
    CHECK_THAT(
        test::error_of([] { dsl::check_schedule(test::request(Collective::broadcast, "", "4", 4, 4)); }),
        Contains("no root 4"));
    CHECK_THAT(error(Collective::all_reduce, "halving", "6"),
               Contains("halving cannot run on topology 6") && Contains("halving.sched:15:38: note"));
}

TEST_CASE("a file of another kind is told from a name") {
    const test::TemporaryFolder folder;
    folder.write("ring.xml", "<algo/>");
    folder.write("box.network", "ring@1GB/s");
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(folder.path());
    const std::string schedule =
        test::error_of([] { dsl::check_schedule(test::request(Collective::all_reduce, "ring.xml", "4")); });
    const std::string topology = test::error_of(
        [] { dsl::check_schedule(test::request(Collective::all_reduce, "ring", "box.network")); });
    std::filesystem::current_path(before);
    CHECK_THAT(schedule, Contains("ring.xml is a file") && Contains("end in .sched"));
    CHECK_THAT(topology, Contains("box.network is a file") && Contains("networks are given with -N"));
}

TEST_CASE("a file goes before the library, and a reference to a file is to that file alone") {
    const test::TemporarySchedule file(
        "algorithm ring all_gather(x) over g { each r in g, q in g where q != r x[r] : r -> q }\n"
        "schedule mine all_reduce(x) { reduce_scatter x over world using ring all_gather x over world using "
        "ring }");
    const auto program =
        dsl::check_schedule(test::request(Collective::all_reduce, file.path(), "4"))->project(0);
    int messages = 0;
    for (const dsl::Op& op : program.ops) messages += op.kind == dsl::Op::Kind::send && op.phase >= 3;
    CHECK(messages == 3);  // the file's ring sends all at once
    const auto error = [&](const std::string& name) {
        return test::error_of([&] {
            dsl::check_schedule(test::request(Collective::all_reduce, file.path() + ":" + name, "4"));
        });
    };
    CHECK(error("mine") == "");
    CHECK_THAT(error("ring"), Contains("defines no 'ring' for all_reduce"));  // the library does
}

TEST_CASE("an algorithm beside several schedules is not taken for them") {
    const test::TemporarySchedule file(
        "algorithm helper all_reduce(x) over g { each r in g, q in g where r != q x : r +> q }\n"
        "schedule one all_reduce(x) { all_reduce x over world using helper }\n"
        "schedule other all_reduce(x) { reduce_scatter x over world all_gather x over world }");
    CHECK_THAT(
        test::error_of([&] { dsl::check_schedule(test::request(Collective::all_reduce, file.path(), "3")); }),
        Contains("does not have exactly one schedule for all_reduce") && Contains("there are: one, other"));
}

TEST_CASE("a broken file in a folder of schedules is only named when something is missing") {
    const test::TemporaryFolder folder;
    folder.write("broken.sched", "algorithm {");
    folder.write("good.sched",
                 "schedule good all_reduce(x) { reduce_scatter x over world using ring all_gather x over "
                 "world using ring }");
    dsl::PlanRequest request = test::request(Collective::all_reduce, "good", "4");
    request.search_path.insert(request.search_path.begin(), folder.path());
    CHECK(dsl::check_schedule(request)->name() == "good");
    request.schedule = "missing";
    CHECK_THAT(test::error_of([&] { dsl::check_schedule(request); }),
               Contains("passed over: ") && Contains("broken.sched:1:11: error: expected a name"));
}

TEST_CASE("composition keeps account of what each rank holds") {
    const auto schedule = [](const std::string& body) {
        return check_error("schedule s all_reduce(x) {" + body + "}", Collective::all_reduce, "2x3");
    };
    CHECK(
        schedule(
            "reduce_scatter x over l1 reduce_scatter x over l0 all_gather x over l1 all_gather x over l0") ==
        "");
    CHECK(schedule("reduce_scatter x over (l0, l1) using ring all_gather x over l0 all_gather x over l1 "
                   "using direct") == "");
    CHECK_THAT(schedule("all_gather x over l0"),
               Contains("not scattered over l0: there is nothing to gather"));
    CHECK_THAT(schedule("reduce_scatter x over l0 reduce_scatter x over world"),
               Contains("scattered over world"));
    CHECK_THAT(schedule("reduce_scatter x over levels[2]"),
               Contains("index 2 is out of range: there are 2 levels"));
    CHECK_THAT(schedule("reduce_scatter x over 3"), Contains("expected a group, but this is a number"));
    CHECK_THAT(schedule("reduce_scatter l0 over l0"), Contains("expected a buffer, but this is a group"));
    CHECK_THAT(schedule("reduce_scatter x over (l0, l0)"), Contains("twice"));
    CHECK_THAT(schedule("let y = x.part(2 of 2)"), Contains("no part 2 of 2"));
    CHECK_THAT(schedule("reduce_scatter x over l0"),
               Contains("rank 0 ends with") && Contains("hint: x is still scattered over l0 at the end"));
    CHECK_THAT(schedule("reduce_scatter x over wrld"),
               Contains("'wrld' is not known here (did you mean 'world'?)"));
    CHECK_THAT(schedule("reduce_scatter x over chip"),
               Contains("known here: x, levels, world, ranks, l0, l1") &&
                   Contains("on topology 2x3 (levels: l0 l1)"));
}

TEST_CASE("headers name a root where the collective has one") {
    for (const Collective collective : dsl::all_collectives) {
        const std::string name(name_of(collective));
        const bool has_root = contract_of(collective).has_root();
        CAPTURE(name);
        const std::string alone = check_error("algorithm a " + name + "(x) over g { }", collective),
                          with_root = check_error("schedule s " + name + "(x, r) { }", collective);
        const std::string needs = "error: " + name + " needs a root",
                          has_none = "error: " + name + " has no root";
        CHECK((alone.find(needs) != std::string::npos) == has_root);
        CHECK((with_root.find(has_none) != std::string::npos) == !has_root);
        CHECK_THAT(has_root ? alone : with_root, Contains("hint: its header must name the buffer") &&
                                                     Contains(has_root ? name + "(x, root)" : name + "(x)"));
    }
}

TEST_CASE("collectives' names name buffers, parameters, algorithms and variables, too") {
    CHECK(
        check_error("algorithm gather reduce(scatter, broadcast) over all_gather {\n"
                    "    each reduce in all_gather where reduce != broadcast  scatter : reduce +> broadcast\n"
                    "}\n"
                    "schedule s all_reduce(gather; reduce = gather, scatter = 1) {\n"
                    "    reduce gather over l0 to scatter using reduce\n"
                    "    all_reduce gather over l1\n"
                    "    broadcast gather over l0 from scatter\n"
                    "    let all_reduce = gather.part(0 of 2)\n"
                    "    all_reduce : 0 -> 1  all_reduce[0] : 0 -> 2\n"
                    "}\n",
                    Collective::all_reduce, "2x3") == "");
}

TEST_CASE("statements name the root that the collective's data come from, or go to") {
    const auto schedule = [](const std::string& body) {
        return check_error("schedule s all_reduce(x) {" + body + "}", Collective::all_reduce, "2x3");
    };
    CHECK_THAT(schedule("broadcast x over l0"),
               Contains("broadcast needs its root") && Contains("write: broadcast x over l0 from root"));
    CHECK_THAT(schedule("scatter x over l0"), Contains("write: scatter x over l0 from root"));
    CHECK_THAT(schedule("reduce x over l0"),
               Contains("reduce needs its root") && Contains("write: reduce x over l0 to root"));
    CHECK_THAT(schedule("reduce_scatter x over l0 gather x over l0"),
               Contains("write: gather x over l0 to root"));
    CHECK_THAT(schedule("reduce_scatter x over l0 from 1"),
               Contains("reduce_scatter has no root that its data come from"));
    CHECK_THAT(schedule("all_reduce x over l0 to 1"),
               Contains("all_reduce has no root that its data come to"));
    CHECK_THAT(schedule("broadcast x over l0 to 1"), Contains("write: broadcast x over l0 from root"));
    CHECK_THAT(schedule("reduce x over l0 from 1"), Contains("reduce has no root that its data come from"));
    CHECK_THAT(schedule("gather x over l0 to 0"),
               Contains("not scattered over l0: there is nothing to gather"));
    for (const char* statement : {"reduce x over l0 to 0", "scatter x over l0 from 0"})
        CHECK_THAT(schedule(std::string("reduce_scatter x over l0 ") + statement),
                   Contains("x is scattered over l0: its ranks hold different parts of it"));
}

TEST_CASE("what a buffer's last statement did to it is told with what it must not do now") {
    const auto schedule = [](const std::string& body) {
        return check_error("schedule s all_reduce(x) {\n" + body + "\n}", Collective::all_reduce, "2x3");
    };
    CHECK_THAT(schedule("all_gather x over l0"),
               Contains("hint: reduce_scatter x over the same levels first"));
    CHECK_THAT(schedule("reduce_scatter x over l0\nall_gather x over l0\nall_gather x over l0"),
               Contains(".sched:4:1: error: x is not scattered") &&
                   Contains(".sched:3:1: note: gathered here already"));
    CHECK_THAT(schedule("let y = x.part(0 of 2)\nreduce_scatter y over l0\nall_gather x over l0"),
               Contains(".sched:3:1: note: y is scattered, by this"));
    CHECK_THAT(schedule("reduce_scatter x over l0\nreduce_scatter x over l0"),
               Contains(".sched:2:1: note: scattered here already"));
}

TEST_CASE("a wrong composition of right algorithms is shown at its statement") {
    const std::string error = check_error(
        "schedule s all_reduce(x) {\n    all_reduce x over world using butterfly\n"
        "    all_reduce x over world using butterfly\n}",
        Collective::all_reduce, "2x2");
    CHECK_THAT(error, StartsWith("/tmp") && Contains(".sched:3:5: error: ") && Contains("a second time") &&
                          Contains("note: here, in the algorithm, of which no fault is known"));
    // Arguments that an algorithm of the library cannot use.
    CHECK_THAT(
        check_error("schedule s broadcast(x, root) { broadcast x over world from root using knomial(2.5) }",
                    Collective::broadcast, "4"),
        Contains("expected a whole number") && Contains("note: in the algorithm that this runs"));
}

TEST_CASE("schedules that run on one rank alone are refused, as nothing of them is proved") {
    CHECK_THAT(check_all_error(
                   "algorithm a all_gather(x) over g where g.size < 2 { each r in g x[r] : r -> r + 1 }"),
               Contains("only one rank meets this condition"));
    CHECK_THAT(check_all_error("schedule s broadcast(x, root) {\n"
                               "    broadcast x over world from root using knomial(radix = 1)\n}"),
               Contains("runs on no topology that was tried but one rank"));
}

TEST_CASE("a level's properties are given once, and name other levels") {
    const auto level = [](const std::string& properties) {
        return check_all_error("topology t(n = 2) { level a[n] { latency 3us bandwidth 1GB/s " + properties +
                               " } }");
    };
    CHECK_THAT(level("latency 5us"),
               Contains("this property of the level is given twice") && Contains("here first"));
    CHECK_THAT(level("shared by a"), Contains("not shared by the level itself"));
    CHECK_THAT(level("shared by ab"), Contains("there is no level 'ab'"));
}

TEST_CASE("transfers are checked where they stand") {
    const auto algorithm = [](const std::string& body) {
        return check_error("algorithm a all_gather(x) over g {" + body + "}", Collective::all_gather);
    };
    CHECK_THAT(algorithm("each r in g x[r] : r -> r"), Contains("member 0 of a group of 4 sends to itself") &&
                                                           Contains("hint: both ends are the same member"));
    CHECK_THAT(algorithm("each r in g { let p = r / 2 * 2 x[r] : r -> p }"),
               Contains("hint: exclude it: if p != r"));
    CHECK_THAT(algorithm("each r in g let p = r / 2 * 2 x[r] : r -> p"),
               Contains("hint: exclude it: each ... where p != r"));
    CHECK_THAT(algorithm("each r in g x[r] : r -> r + 4"),
               Contains("hint: exclude it: each ... where (r + 4) mod g.size != r") &&
                   Contains("note: algorithm a all_gather on topology 4 (levels: l0)"));
    CHECK_THAT(algorithm("each r in g where (r + 4) mod g.size != r x[r] : r -> r + 4"),
               !Contains("sends to itself"));
    CHECK_THAT(algorithm("let n = 4 x[0] : 0 -> n"), Contains("hint: exclude it: if n mod g.size != 0"));
    CHECK_THAT(algorithm("each r in g g[r] : r -> r + 1"),
               Contains("expected a buffer here, but this is a group"));
    CHECK_THAT(algorithm("each r in g x[2 ..< 7] : r -> r + 1"),
               Contains("the slice 2 ..< 7 names chunks twice: this group has 4"));
    CHECK_THAT(algorithm("each r in g x[2 ..< 2] : r -> r + 1"), Contains("the slice 2 ..< 2 is empty"));
    CHECK_THAT(algorithm("each r in g x[-2**62 - 1 ..< 2**62] : r -> r + 1"), Contains("names chunks twice"));
    CHECK_THAT(algorithm("each r in g x[block(r, 0)] : r -> r + 1"), Contains("a block has at least one"));
    CHECK_THAT(algorithm("each r in g for s in 1 ..< 2 x[r] : r -> r + 1"),
               Contains("`each` may contain only transfers, `let` and `if`"));
    CHECK_THAT(algorithm("for s in 0 ..< 9000000 x[0] : 0 -> 1"), Contains("this loop has more than"));
    CHECK_THAT(algorithm("for s in 0 ..< 4000000 for t in 0 ..< 4000000 let u = 1"),
               Contains("steps and loop iterations"));
    CHECK_THAT(algorithm("all_gather x over g"), Contains("an algorithm consists of transfers"));
    CHECK_THAT(algorithm("each r in g, q in 0 ..< r x[r] : r -> q"), Contains("depends on its variable 'r'"));
    CHECK_THAT(algorithm("let a = x.part(0 of 2**20) let b = a.part(0 of 2**20) b : 0 -> 1"),
               Contains("more than 2^31 pieces") && Contains(":1:"));
    CHECK_THAT(check_error("algorithm a all_gather(x) over g { } algorithm a all_gather(x) over g { }",
                           Collective::all_gather),
               Contains("'a' is defined twice") && Contains("first here"));
}

TEST_CASE("a name that is made again in another round or block is that block's") {
    // Each round has its own y; wrong if every round got the first one's.
    const std::string tiles =
        "algorithm a all_reduce(x) over g { for t in 0 ..< 3 { let y = x.part(t of 3)\n"
        " each r in g, q in g where q != r y : r +> q } }";
    CHECK(check_error(tiles, Collective::all_reduce, "3") == "");
    CHECK(check_error("algorithm a all_reduce(x) over g { { let y = x.part(0 of 2) each r in g, q in g where "
                      "q != r y : r +> q } { let y = x.part(1 of 2) { each r in g, q in g where q != r "
                      "y : r +> q } } }",
                      Collective::all_reduce, "3") == "");
    // Parts of two blocks are gone; those that follow are others, though they stand at the same place.
    CHECK_THAT(check_error("algorithm stale all_reduce(x) over g where g.size == 3 {\n"
                           "each r in 1 ..< 3 x : r +> 0\n"
                           "for t in 0 ..< 2 { let y = x.part(t of 2) y : 0 -> t + 1 }\n"
                           "let d = x.part(0 of 2) let z = x.part(1 of 2)\n"
                           "each r in 1 ..< 3 z : 0 -> r }",
                           Collective::all_reduce, "3"),
               Contains("rank 2 ends with") && Contains("missing the part of rank 0"));
}

TEST_CASE("a part can be named inside an each, and is another in each iteration") {
    const auto all_gather = [](const std::string& body) {
        return check_error(
            "algorithm a all_gather(x) over g { each r in g, q in g, t in 0 ..< 2 where q != r {" + body +
                "} }",
            Collective::all_gather);
    };
    CHECK(all_gather("let i = 1 - t let y = x.part(i of 2) y[r] : r -> q") == "");
    CHECK_THAT(all_gather("let y = x.part(0 of 2) y[r] : r -> q"), Contains("twice at the same time"));
    // A schedule's own: a part of every rank's chunk.
    CHECK(
        check_error("schedule s all_gather(x) { each r in world, q in world where q != r { let y = x.part(0 "
                    "of 2) y[r] : r -> q } each r in world, q in world where q != r { let y = x.part(1 of 2) "
                    "y[r] : r -> q } }",
                    Collective::all_gather, "2x2") == "");
}

TEST_CASE("without using, the compiler chooses what fits the group, and says why") {
    const auto few = dsl::check_schedule(test::request(Collective::all_reduce, "blueconnect", "6"));
    REQUIRE(few->choices().size() == 2);
    CHECK_THAT(few->choices()[0], Contains("reduce_scatter over l0 (6 ranks): ring"));
    CHECK_THAT(few->choices()[0], !Contains("halving"));  // not on 6
    const auto many = dsl::check_schedule(test::request(Collective::all_reduce, "blueconnect", "64"));
    CHECK_THAT(many->choices()[0], Contains("(64 ranks): halving"));
}

TEST_CASE("the choice is by the time of the whole, and of what is right only") {
    const test::TemporarySchedule file(
        "algorithm chain broadcast(x, root) over g { for s in 0 ..< g.size - 1 x : root + s -> root + s + 1 "
        "}\n"
        "algorithm nothing broadcast(x, root) over g { }\n"
        "schedule s broadcast(x, root) { broadcast x over world from root }");
    const auto checked = dsl::check_schedule(test::request(Collective::broadcast, file.path(), "16"));
    REQUIRE(checked->choices().size() == 1);
    CHECK_THAT(checked->choices()[0], Contains("nothing 0 us (wrong on this group), binomial"));
}

TEST_CASE("parts inside an algorithm are parts of each of its chunks") {
    const std::string text =
        "algorithm two all_reduce(x) over g { let y = x.part(0 of 2) let z = x.part(1 of 2)\n"
        " each r in g, q in g where q != r y : r +> q\n each r in g, q in g where q != r z : r +> q }\n"
        "schedule s all_reduce(x) { all_reduce x over l0 using two all_reduce x over l1 }";
    CHECK(check_error(text, Collective::all_reduce, "2x3") == "");
}

TEST_CASE("a schedule's where decides on which topologies it runs") {
    const std::string text =
        "schedule s all_reduce(x) where pow2(ranks) and levels.count == 1 { for k in 0 ..< log2(ranks) each "
        "r in world x : r +> r xor 2**k }";
    CHECK(check_error(text) == "");
    CHECK_THAT(check_error(text, Collective::all_reduce, "6"),
               Contains("s cannot run on topology 6") && Contains("because of this condition"));
    CHECK_THAT(check_error(text, Collective::all_reduce, "2x2"), Contains("s cannot run on topology 2x2"));
}

TEST_CASE("what verification lets pass, projection lays out") {
    // The endpoint's constant part has no value where `where` keeps the steps from being looked at.
    const test::TemporarySchedule file(
        "algorithm a all_gather(x) over g { for k in 0 ..< g.size\n"
        " each r in g where k > 0 x[r] : r -> r + k * (g.size / k) / (g.size / k) }");
    const auto checked = dsl::check_schedule(test::request(Collective::all_gather, file.path(), "4"));
    for (dsl::Rank rank = 0; rank < 4; ++rank) CHECK(checked->project(rank).ops.size() == 7);
    // Numbers near the ends of their range.
    const test::TemporarySchedule large(
        "algorithm a all_gather(x) over g { for s in 0 ..< g.size - 1\n"
        " each r in 9223372036854775803 ..< 9223372036854775807 x[r - s] : r -> r + 1 }");
    const auto far = dsl::check_schedule(test::request(Collective::all_gather, large.path(), "4"));
    for (dsl::Rank rank = 0; rank < 4; ++rank) CHECK(far->project(rank).ops.size() == 7);
}

TEST_CASE("topologies are bounded, and their figures are figures") {
    const auto topology = [](const std::string& body) {
        const test::TemporarySchedule file("topology t {" + body + "}");
        return test::error_of([&] {
            dsl::Library library({});
            dsl::find_topology(library, file.path(), 0);
        });
    };
    CHECK(topology("level a[2] { shared by b } level b[3] {}") == "");
    CHECK_THAT(topology("level a[4] {} level b[4611686018427387904] {}"),
               Contains("a level of 4611686018427387904 ranks"));
    CHECK_THAT(topology("for i in 0 ..< 4000000 level a[1] {}"), Contains("more than 64 levels"));
    CHECK_THAT(topology("for i in 0 ..< 4000000 for j in 0 ..< 0 level a[1] {}"),
               Contains("loop iterations"));
    CHECK_THAT(topology("level a[2] { latency -3us }"), Contains("a time must be 0 or more"));
    CHECK_THAT(topology("level a[2] { bandwidth 0B/s }"), Contains("a rate must be more than 0"));
    CHECK_THAT(topology("level a[2] { shared by nobody }"), Contains("there is no level 'nobody'"));
    CHECK_THAT(topology(""), Contains("has no level"));
    for (const std::string nic :
         {"eth1", "enp3s0f0np0", "br-lan.100", "10.0.1.0/24", "0.0.0.0/0", "fd00:1::/64"})
        CHECK(topology("level a[2] { nic " + nic + " }") == "");
    for (const std::string nic :
         {"10.0.1.0", "10.0.1/24", "10.0.1.0/33", "10.0.1.0/", "eth1/24", "fd00::/129", "fd00::1",
          "a-name-of-16-abc", "10.0.1.0/24/8", "10.0.1.0/-1"})
        CHECK_THAT(topology("level a[2] { nic " + nic + " }"),
                   Contains("'" + nic + "' names no network interface, nor a subnet"));
    CHECK_THAT(topology("level a[2] { nic }"), Contains("expected a network interface or a subnet here"));
}

TEST_CASE("a check tries every root, and says so") {
    // Right for the roots 0, n / 2 and n - 1.
    const test::TemporarySchedule file(
        "algorithm some broadcast(x, root) over g {\n"
        "each q in g where q != root and (root != 6 or q != 3)\n"
        "x : root -> q }\n"
        "schedule some reduce(x, root) {\n"
        "reduce x over world to root using direct\n"
        "x[0] : 1 -> 6 }\n"
        "schedule itself broadcast(x, root) { each q in world where q != root or q == 5\n"
        "x : root -> q }\n"
        "algorithm itself gather(x, root) over g { each q in g where q != root or q == 5\n"
        "x[q] : q -> root }\n"
        "schedule good reduce(x, root) { reduce x over world to root using direct }\n");
    std::string right, wrong;
    const dsl::CheckListener listener{
        [&](const dsl::RightDefinition& definition) { right += text_of(definition) + "\n"; },
        [&](const dsl::Report& report) { wrong += render(report) + "\n"; }};
    dsl::CheckOptions options;
    options.files = {file.path()};
    options.group_sizes = {8};
    options.topologies = {"8"};
    options.search_path = {HOCKET_SCHEDULES_DIR};
    const dsl::CheckResult result = dsl::check_files(options, listener);
    CHECK(result.right == 1);
    CHECK(result.wrong == 4);
    CHECK_THAT(wrong, Contains("some broadcast on 8 ranks from rank 6: rank 3 ends with nothing") &&
                          Contains("schedule some reduce on 8 to rank 6: rank 6 ends with") &&
                          Contains("sends to itself") && Contains("on topology 8 (levels: l0) from rank 5") &&
                          Contains(" to rank 5"));
    CHECK_THAT(right, Contains("schedule good reduce") && Contains("on 8; every root"));
    CHECK(dsl::roots_to_try(64).size() == 64);
    CHECK(dsl::roots_to_try(65) == std::set<dsl::Rank>{0, 32, 64});
}

TEST_CASE("numbers of ranks are for schedules, too, unless topologies are given") {
    const test::TemporarySchedule file(
        "algorithm one all_gather(x) over g { each r in g, q in g where q != r  x[r] : r -> q }\n"
        "schedule whole all_reduce(x) {\n"
        "    reduce_scatter x over world using ring\n"
        "    all_gather x over world using one\n"
        "}\n"
        "schedule even all_reduce(x) where ranks mod 2 == 0 { all_reduce x over world using ring }\n");
    const auto checked = [&](std::vector<dsl::Rank> sizes, std::vector<std::string> topologies) {
        std::string right;
        const dsl::CheckListener listener{
            [&](const dsl::RightDefinition& definition) { right += text_of(definition) + "\n"; },
            [](const dsl::Report&) {}};
        dsl::CheckOptions options;
        options.files = {file.path()};
        options.group_sizes = std::move(sizes);
        options.topologies = std::move(topologies);
        options.search_path = {HOCKET_SCHEDULES_DIR};
        CHECK(dsl::check_files(options, listener).wrong == 0);
        return right;
    };
    const std::string right = checked({4, 5, 18}, {});
    CHECK_THAT(right, Contains("groups of 4, 5, 18\n") && Contains("schedule whole all_reduce"));
    CHECK_THAT(right, Contains("on 4 5 18 2x2\n") && Contains("on 4 18 2x2\n"));
    CHECK_THAT(checked({4, 18}, {"3x2"}), Contains("on 3x2\n") && !Contains("2x2"));
}

TEST_CASE(
    "names of single ranks' programs, and groups and buffers as numbers, are answered with what to write") {
    const auto refusal = [](const std::string& body) {
        return check_error("algorithm a broadcast(x, root) over team {" + body + "}", Collective::broadcast);
    };
    CHECK_THAT(check_error("algorithm all_gather ring(x) over g { }"),
               Contains("the name comes first, and then"));
    CHECK_THAT(refusal("for s in 0 ..< size x : 0 -> s"), Contains("the number of members is team.size"));
    CHECK_THAT(refusal("if rank == root x : 0 -> 1"), Contains("transfers name theirs: each r in team"));
    CHECK_THAT(refusal("for s in 0 ..< team x : 0 -> s"), Contains("the number of its members is team.size"));
    CHECK_THAT(refusal("each q in team where q != x x : root -> q"), Contains("a number is known when"));
    CHECK_THAT(refusal("each q in team x[q ..< q] : root -> q"), Contains("its end is not in a slice"));
    CHECK_THAT(refusal("let n = sqrt(4)"), Contains("numbers here are whole"));
    CHECK_THAT(refusal("if team.size > 1 { let n = 1 } x : 0 -> n"),
               Contains("this one ended with its block"));
    CHECK_THAT(refusal("let n = n + 1"), Contains("hint: known here: x, team, root"));
}

TEST_CASE("what is wrong on many ranks is refused as on few, by itself and where it is used") {
    const std::string off =
        "algorithm off all_gather(x) over g {\n"
        "    for s in 0 ..< g.size - 1  each r in g  x[r - s + 1] : r -> r + 1\n}\n";
    const auto refusal = [&](const std::string& text, const char* topology) {
        return check_error(off + text, text.empty() ? Collective::all_gather : Collective::all_reduce,
                           topology);
    };
    const std::string schedule =
        "algorithm direct reduce_scatter(x) over g { each r in g, q in g where q != r  x[q] : r +> q }\n"
        "schedule s all_reduce(x) { reduce_scatter x over levels[0] using direct\n"
        "all_gather x over levels[0] using off }\n";
    for (const char* ranks : {"200", "300"}) {
        CHECK_THAT(refusal("", ranks),
                   Contains("2:45: error: algorithm off all_gather on " + std::string(ranks)) &&
                       Contains("before anything is in it"));
        CHECK_THAT(refusal(schedule, ranks),
                   Contains("2:45: error: algorithm off all_gather on " + std::string(ranks)));
    }
    CHECK_THAT(refusal(schedule, "20x20"), Contains("2:45: error: algorithm off all_gather on 20"));
}

TEST_CASE("a counter-example names the iteration, and where what is missing is instead") {
    const std::string early = check_error(
        "algorithm a reduce(x, root) over g {\n for k in 0 ..< log2_up(g.size)\n each i in 0 ..< 2**k where "
        "i + 2**k "
        "< g.size\n x : root + i + 2**k +> root + i\n}",
        Collective::reduce, "4");
    CHECK_THAT(early, Contains("note: there root = 0, k = 1, i = 0"));
    const std::string twice =
        check_error("schedule s all_reduce(x) { for t in 0 ..< 2 { all_reduce x over world } }",
                    Collective::all_reduce, "2");
    CHECK_THAT(twice, Contains("note: there t = 1; in the algorithm "));
    CHECK_THAT(
        check_error("schedule s all_reduce(x) { reduce x over world to 0 }", Collective::all_reduce, "2"),
        Contains("rank 0 ends with what should be there, from this") &&
            Contains("hint: the result is with rank 0 alone at the end: broadcast x from there"));
    CHECK_THAT(check_error(
                   "algorithm a scatter(x, root) over g { each q in g where q != root x[q + 1] : root -> q }",
                   Collective::scatter, "3"),
               Contains("is sent chunk") && Contains("by this"));
    CHECK_THAT(check_error("algorithm a all_reduce(x) over g { for s in 3 ..< 1 x : 0 -> 1 }",
                           Collective::all_reduce, "2"),
               Contains("note: this has no rounds on 2 ranks") && Contains("to count down: end >.. last"));
    CHECK_THAT(
        check_error(
            "algorithm a all_gather(x) over g { each s in 0 ..< g.size - 1, r in g x[r - s] : r -> r + 1 }",
            Collective::all_gather, "3"),
        Contains("all of them happen at once: put a `for` around the each"));
    CHECK_THAT(
        check_error("schedule s all_reduce(x) approximate lossy { let s = mstopk(x, 0.01) x = sum(s) }",
                    Collective::all_reduce, "2"),
        Contains("hint: a sum adds up the selections that a rank holds"));
}
