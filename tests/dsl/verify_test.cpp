#include <algorithm>
#include <regex>
#include <set>

#include "tests/dsl/errors.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using dsl::Collective;
using test::check_error;
using test::library_file;

namespace {

int line_of(const std::string& text, std::size_t offset) {
    return 1 + static_cast<int>(
                   std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

struct Mutation {
    const char* name;
    std::string transfer;
};

// Ways in which a transfer is got wrong. `first` picks one of its iterations.
std::vector<Mutation> mutations(const std::smatch& t) {
    const std::string region = t[1], source = t[3], arrow = t[4], destination = t[5];
    std::string chunk = t[2].matched ? std::string(t[2]) : "";
    if (const std::size_t first = chunk.find(" ..<"); first != std::string::npos) chunk.insert(first, " + 1");
    std::vector<Mutation> all;
    all.push_back({"doubled", "{ " + std::string(t[0]) + "\n" + std::string(t[0]) + " }"});
    if (arrow == "+>") all.push_back({"overwrites", region + " : " + source + " -> " + destination});
    if (arrow == "->") all.push_back({"combines", region + " : " + source + " +> " + destination});
    if (!chunk.empty() && chunk.find("block") == std::string::npos)
        all.push_back({"chunk off by one",
                       region.substr(0, 2) + chunk + " + 1] : " + source + " " + arrow + " " + destination});
    all.push_back(
        {"destination off by one", region + " : " + source + " " + arrow + " " + destination + " + 1"});
    return all;
}

}  // namespace

TEST_CASE("every transfer of the library, got wrong in every way, is refused with rank, chunk and line") {
    const std::regex transfer(R"(([xy](?:\[([^\n]*)\])?) : ([^\n]+?) ([+-]>) ([^\n#]*[^\n# ]))");
    int checked = 0;
    for (const char* name :
         {"ring.sched", "direct.sched", "halving.sched", "binomial.sched", "pairwise.sched", "bruck.sched"}) {
        const std::string text = library_file(name);
        for (std::sregex_iterator match(text.begin(), text.end(), transfer), end; match != end; ++match) {
            const auto offset = static_cast<std::size_t>(match->position());
            const std::size_t head = text.rfind("algorithm ", offset);
            std::smatch header;
            const std::string tail = text.substr(head);
            REQUIRE(std::regex_search(tail, header, std::regex(R"(algorithm (\w+) (\w+))")));
            const auto collective =
                *std::find_if(std::begin(dsl::all_collectives), std::end(dsl::all_collectives),
                              [&](Collective each) { return dsl::name_of(each) == header[2].str(); });
            for (const Mutation& mutation : mutations(*match)) {
                std::string wrong = text;
                wrong.replace(offset, static_cast<std::size_t>(match->length()), mutation.transfer);
                const test::TemporarySchedule file(wrong);
                const std::string error = test::error_of([&] {
                    dsl::check_schedule(test::request(collective, file.path() + ":" + header[1].str(), "8"));
                });
                INFO(name << ":" << line_of(text, offset) << " " << mutation.name << "\n"
                          << mutation.transfer << "\n"
                          << error);
                CHECK((error.find("rank ") != std::string::npos ||
                       error.find("sends to itself") != std::string::npos));
                CHECK((error.find("chunk ") != std::string::npos ||
                       error.find("the buffer") != std::string::npos ||
                       error.find("sends to itself") != std::string::npos));
                const int line = line_of(text, offset);
                const auto says = [&](int n) {
                    return error.find(file.path() + ":" + std::to_string(n) + ":") != std::string::npos;
                };
                // If nothing was ever written, the error cannot name a transfer.
                const bool unwritten = error.find("no transfer ever writes there") != std::string::npos;
                CHECK((says(line) || says(line + 1) || (unwritten && says(line_of(text, head)))));
                ++checked;
            }
        }
    }
    CHECK(checked >= 45);
}

TEST_CASE("every single missing iteration is refused") {
    // s and r name one transfer of the ring; n - 1 steps of n transfers.
    for (const char* collective : {"reduce_scatter", "all_gather"}) {
        const bool reduces = std::string(collective) == "reduce_scatter";
        for (int s = reduces ? 1 : 0; s < (reduces ? 5 : 4); ++s)
            for (int r = 0; r < 5; ++r) {
                const std::string hole =
                    " where not (s == " + std::to_string(s) + " and r == " + std::to_string(r) + ")";
                const std::string text = std::string("algorithm a ") + collective +
                                         "(x) over g {\n for s in " +
                                         (reduces ? "1 ..< g.size" : "0 ..< g.size - 1") + "\n each r in g" +
                                         hole + "\n x[r - s] : r " + (reduces ? "+>" : "->") + " r + 1\n}";
                const std::string error =
                    check_error(text, reduces ? Collective::reduce_scatter : Collective::all_gather, "5");
                INFO(error);
                CHECK_THAT(error, Contains("rank ") && Contains("chunk "));
            }
    }
}

TEST_CASE("the counter-example names rank, chunk, contribution and the last write") {
    const std::string error = check_error(
        "algorithm a reduce_scatter(x) over g {\n"
        "    for s in 1 ..< g.size\n"
        "        each r in g where not (r == 2 and s == 1)\n"
        "            x[r - s] : r +> r + 1\n"
        "}\n",
        Collective::reduce_scatter);
    CHECK_THAT(error, Contains(":4:13: error: algorithm a reduce_scatter on 4 ranks: rank 1 ends with chunk "
                               "1 of 4 missing the part of rank 2: "
                               "it has those of {0, 1, 3}"));
    CHECK_THAT(error,
               Contains("            x[r - s] : r +> r + 1\n      |             ^~~~~~~~~~~~~~~~~~~~~\n"));
    CHECK_THAT(error, Contains("note: last written by this transfer, from rank 0"));
}

TEST_CASE("nothing is read before it is there, and the first write to a place is not a combine") {
    CHECK_THAT(check_error("algorithm a all_gather(x) over g { each r in g x[r + 1] : r -> r + 2 }",
                           Collective::all_gather),
               Contains("rank 0 sends chunk 1 of 4 to rank 2 before anything is in it"));
    CHECK_THAT(check_error("algorithm a all_gather(x) over g { each r in g x[r] : r +> r + 1 }",
                           Collective::all_gather),
               Contains("rank 1 combines into chunk 0 of 4, which holds nothing yet"));
}

TEST_CASE("simultaneous writes to one place must all combine") {
    CHECK_THAT(
        check_error("algorithm a all_gather(x) over g { each r in g, q in g where q != r x[0] : 0 -> 1 }",
                    Collective::all_gather),
        Contains("rank 1 is sent chunk 0 of 4 twice at the same time"));
    CHECK_THAT(
        check_error(
            "algorithm a reduce_scatter(x) over g { each r in 1 ..< 2 { x[0] : r -> 0 x[0] : r + 1 +> 0 } }",
            Collective::reduce_scatter),
        Contains("once to combine and once to overwrite"));
}

TEST_CASE("parallel strands must not touch each other's parts") {
    const auto strands = [](const std::string& part) {
        return check_error(
            "schedule s all_reduce(x) { parallel t in 0 ..< 2 { let y = x.part(" + part +
            ")\n reduce_scatter y over world using ring all_gather y over world using ring } }");
    };
    CHECK(strands("t of 2") == "");
    CHECK_THAT(strands("0 of 2"), Contains("which a parallel strand"));
    // Each strand alone would be right; together they race on x.
    CHECK_THAT(check_error("schedule s all_reduce(x) { parallel t in 0 ..< 2 { let y = x.part(t of 2)\n "
                           "reduce_scatter y over world using ring\n"
                           "all_gather y over world using ring x[0] : 0 -> 1 } }"),
               Contains("which a parallel strand"));
}

TEST_CASE("a wrong algorithm is blamed in its own terms when a schedule uses it") {
    const std::string error = check_error(
        "algorithm a reduce_scatter(x) over g {\n each r in g x[r + 1] : r +> r + 1\n}\n"
        "schedule s all_reduce(x) {\n reduce_scatter x over l1 using a\n all_gather x over l1\n}\n",
        Collective::all_reduce, "2x3");
    CHECK_THAT(error, Contains("algorithm a reduce_scatter on 3 ranks: rank 0 ends with chunk 0 of 3"));
}

TEST_CASE("a root gets every contribution once, each rank its piece, and nobody else's result counts") {
    const auto algorithm = [](const char* collective, const std::string& body, Collective which) {
        return check_error(std::string("algorithm a ") + collective + "(x, root) over g {" + body + "}",
                           which);
    };
    const auto reduce = [&](const std::string& where, const std::string& more = "") {
        return algorithm("reduce", "each q in g where q != root" + where + "  x : q +> root" + more,
                         Collective::reduce);
    };
    CHECK(reduce("") == "");
    CHECK(reduce("", " x : root -> root + 1 x[0] : root -> root + 2") == "");
    CHECK_THAT(reduce(" and q != 2"), Contains("rank 0 ends with") &&
                                          Contains("missing the part of rank 2") &&
                                          Contains("it has those of {0, 1, 3}"));
    CHECK_THAT(reduce("", " x[1] : 3 +> root"), Contains("rank 3's part") || Contains("part of rank 3"));
    const auto gather = [&](const std::string& where) {
        return algorithm("gather", "each q in g where q != root" + where + "  x[q] : q -> root",
                         Collective::gather);
    };
    CHECK(gather("") == "");
    CHECK_THAT(gather(" and q != 3"), Contains("rank 0 ends with nothing in chunk 3 of 4"));
    CHECK_THAT(algorithm("gather", "each q in g where q != root  x[q + 1] : q -> root", Collective::gather),
               Contains("before anything is in it"));
    const auto scatter = [&](const std::string& body) {
        return algorithm("scatter", "each q in g where q != root  " + body, Collective::scatter);
    };
    CHECK(scatter("x[q] : root -> q") == "");
    CHECK(scatter("x : root -> q") == "");
    CHECK_THAT(scatter("x[q + 1] : root -> q"), Contains("rank 1 ends with nothing in chunk 1 of 4"));
    CHECK_THAT(scatter("x[q] : q -> root"), Contains("before anything is in it"));
}

TEST_CASE("a collective is done in the groups that have the data, and in no others") {
    using Pairs = std::set<std::pair<dsl::Rank, dsl::Rank>>;
    const auto transfers = [](Collective collective, const std::string& body, dsl::Rank root = 0) {
        const test::TemporarySchedule file(
            "algorithm up reduce(x, root) over g { each q in g where q != root x : q +> root }\n"
            "algorithm down broadcast(x, root) over g { each q in g where q != root x : root -> q }\n"
            "algorithm all all_reduce(x) over g { each q in g, r in g where q != r x : q +> r }\n"
            "schedule s " +
            std::string(name_of(collective)) +
            (contract_of(collective).has_root() ? "(x, root) {" : "(x) {") + body + "}");
        Pairs pairs;
        const auto checked =
            dsl::check_schedule(test::request(collective, file.path() + ":s", "2x3", 0, root));
        for (const dsl::Step& step : checked->graph().steps) pairs.emplace(step.source, step.destination);
        return pairs;
    };
    // Ranks 0 1 | 2 3 | 4 5: pairs over l0, and 0 2 4 and 1 3 5 over l1.
    CHECK(transfers(Collective::reduce, "reduce x over l0 to root using up reduce x over l1 to root using up",
                    3) == Pairs{{0, 1}, {2, 3}, {4, 5}, {1, 3}, {5, 3}});
    CHECK(transfers(Collective::reduce, "reduce x over l1 to root using up reduce x over l0 to root using up",
                    3) == Pairs{{0, 2}, {4, 2}, {1, 3}, {5, 3}, {2, 3}});
    CHECK(transfers(Collective::gather,
                    "gather x over l0 to root using direct gather x over l1 to root using direct",
                    3) == Pairs{{0, 1}, {2, 3}, {4, 5}, {1, 3}, {5, 3}});
    CHECK(transfers(Collective::scatter,
                    "scatter x over l1 from root using direct scatter x over l0 from root using direct",
                    3) == Pairs{{3, 1}, {3, 5}, {1, 0}, {3, 2}, {5, 4}});
    // An all_reduce in between runs among the ranks that have the data; a broadcast brings the data to the
    // others. A part is where its buffer is; the schedule's own transfers are not counted.
    CHECK(
        transfers(Collective::all_reduce,
                  "reduce x over l0 to 1 using up let y = x.part(0 of 2) let z = x.part(1 of 2)\n"
                  "all_reduce y over l1 using all all_reduce z over l1 using all broadcast x over l0 from 1 "
                  "using down") ==
        Pairs{
            {0, 1}, {2, 3}, {4, 5}, {1, 3}, {1, 5}, {3, 1}, {3, 5}, {5, 1}, {5, 3}, {1, 0}, {3, 2}, {5, 4}});
    CHECK(transfers(Collective::broadcast,
                    "x : root -> 1 broadcast x over l1 from root using down broadcast x over l0 from root "
                    "using down") == Pairs{{0, 1}, {0, 2}, {0, 4}, {2, 3}, {4, 5}});
    // The member that has the data is the one with the root's coordinate, in every group.
    CHECK(transfers(Collective::broadcast,
                    "broadcast x over l1 from 1 using down broadcast x over l0 from root using down") ==
          Pairs{{0, 2}, {0, 4}, {0, 1}, {2, 3}, {4, 5}});
}

TEST_CASE("large schedules are verified") {
    CHECK(test::error_of([] { dsl::check_schedule(test::request(Collective::all_reduce, "ring", "256")); }) ==
          "");
    CHECK(test::error_of([] {
              dsl::check_schedule(test::request(Collective::all_reduce, "bml", "bcube(32, 2)"));
          }) == "");
}
