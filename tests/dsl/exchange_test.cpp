// Transfers to another place than they come from, and all_to_all, which is made of them.
#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using dsl::Collective;
using test::check_error;

namespace {

std::string algorithm(const std::string& body, const std::string& topology = "4") {
    return check_error("algorithm a all_to_all(x, y) over g {" + body + "}", Collective::all_to_all,
                       topology);
}

std::string schedule(const std::string& body, const std::string& topology = "2x3") {
    return check_error("schedule s all_to_all(x) {" + body + "}", Collective::all_to_all, topology);
}

const std::string all = "each r in g, q in g x[q] : r -> y[r] : q";

}  // namespace

TEST_CASE("an exchange is right in two buffers, in one, and in parts") {
    CHECK(algorithm(all) == "");
    CHECK(check_error(
              "algorithm a all_to_all(x) over g { each r in g, q in g where q != r x[q] : r -> x[r] : q }",
              Collective::all_to_all, "5") == "");
    CHECK(algorithm("for t in 0 ..< 3 { let a = x.part(t of 3) let b = y.part(t of 3)\n"
                    "each r in g, q in g a[q] : r -> b[r] : q }") == "");
    // Two pieces that are neighbours at the one end, and not at the other.
    CHECK(
        algorithm("each r in g, q in g where q < 2 x[2 * q ..< 2 * q + 2] : r -> y[2 * q ..< 2 * q + 2] : r\n"
                  "each r in g, q in g where r != q y[q] : r -> y[r] : q") == "");
}

TEST_CASE("an exchange over one level after another is one over all of them") {
    CHECK(schedule("for l in levels all_to_all x over l") == "");
    CHECK(schedule("for l in levels.reversed all_to_all x over l") == "");
    CHECK(schedule("all_to_all x over world", "3x1x2") == "");
    CHECK(schedule("all_to_all x over (l0, l2) all_to_all x over l1", "2x3x2") == "");
    CHECK(schedule("parallel t in 0 ..< 2 { let y = x.part(t of 2)\n"
                   "for w in 0 ..< 2 all_to_all y over levels[(t + w) mod 2] }") == "");
    CHECK_THAT(schedule("all_to_all x over l0"),
               Contains("ends with") && Contains("of the result holding the data of rank"));
    // One part is exchanged twice, the other once.
    CHECK_THAT(schedule("let y = x.part(0 of 2) let z = x.part(1 of 2)\n"
                        "for l in levels all_to_all y over l all_to_all z over world"),
               Contains("ends with nothing in"));
    CHECK_THAT(schedule("reduce_scatter x over l0 all_to_all x over l0"), Contains("x is scattered over l0"));
}

TEST_CASE("what is exchanged wrongly is told with the place it is from") {
    CHECK_THAT(
        algorithm("each r in g, q in g x[r] : r -> y[r] : q"),
        Contains("rank 0 ends with chunk 1 of 4 of the result holding chunk 1 of 4 of the input of rank 1 "
                 "instead of chunk 0 of 4 of the input"));
    CHECK_THAT(algorithm("each r in g, q in g where q != r x[q] : r -> y[r] : q"),
               Contains("ends with nothing in chunk 0 of 4 of the result"));
    CHECK_THAT(algorithm("each r in g y[r] : r -> y[r] : r + 1"),
               Contains("rank 0 sends chunk 0 of 4 of the result to rank 1 before anything is in it"));
    CHECK_THAT(algorithm(all + " each r in g x[r + 1] : r +> y[r + 1] : r"),
               Contains("rank 0 combines the values that rank 0 sends from chunk 1 of 4 of the input into "
                        "chunk 1 of 4 of the "
                        "result, which holds chunk 0 of 4 of the input") &&
                   Contains("can be combined"));
    CHECK_THAT(
        algorithm(all + " each r in g x[r] : r +> y[r + 1] : r"),
        Contains(
            "ends with chunk 1 of 4 of the result holding the data of {0, 1} instead of rank 1's alone"));
    // Two values that move past each other are in the way of none; two to one place are.
    CHECK_THAT(algorithm("each r in g, q in g x[q] : r -> y[0] : q"), Contains("twice at the same time"));
}

TEST_CASE("what moves to another place has the same length there, whatever the count") {
    CHECK_THAT(algorithm("each r in g x[0 ..< 2] : r -> y[r] : r"),
               Contains("name as many chunks on both sides"));
    CHECK_THAT(algorithm("let a = x.part(0 of 2) let b = y.part(1 of 2) each r in g a[r] : r -> b[r] : r"),
               Contains("lie differently in the ranks' pieces"));
    CHECK_THAT(check_error("algorithm a all_gather(x) over g { each r in g x[r] : r -> x[r] : r }",
                           Collective::all_gather),
               Contains("sends to itself"));
}

TEST_CASE("where x is not divided by rank, no piece comes to another's place") {
    CHECK_THAT(check_error("schedule t all_reduce(x) { all_to_all x over world using direct }",
                           Collective::all_reduce, "3"),
               Contains("lie differently in it"));
    CHECK_THAT(check_error("schedule c broadcast(x, root) { x[2] : root -> x[0] : root + 1 }",
                           Collective::broadcast, "3"),
               Contains("lie differently in it"));
    const std::string turn = "algorithm turn all_to_all(x, y) over g { each r in g x : r -> y : r + 1 }\n";
    CHECK(check_error(turn + "schedule turned all_reduce(x) { all_to_all x over world using turn\n"
                             "all_reduce x over world using exchange }",
                      Collective::all_reduce, "3") == "");
}

TEST_CASE("an exchange that moves nothing leaves nothing") {
    const std::string idle =
        "algorithm idle all_to_all(x, y) over g { each r in g where r < 0 x : r -> y : r }\n";
    CHECK_THAT(check_error(idle + "schedule s all_gather(x) { all_gather x over world using direct\n"
                                  "all_to_all x over world using idle }",
                           Collective::all_gather, "64"),
               Contains("rank 0 ends with nothing in chunk 0 of 64 of the result"));
}

TEST_CASE("no other collective has a second buffer, and a schedule has one alone") {
    CHECK_THAT(check_error("algorithm a all_gather(x, y) over g { }", Collective::all_gather),
               Contains("all_gather has no root"));
    CHECK_THAT(check_error("schedule s all_to_all(x, y) { }", Collective::all_to_all),
               Contains("its header must name the buffer alone: all_to_all(x)"));
    CHECK_THAT(check_error("algorithm a all_to_all(x, x) over g { }", Collective::all_to_all),
               Contains("there is a 'x' here already"));
}
