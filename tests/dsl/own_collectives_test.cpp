// Collectives that files define: their contracts, and the proofs and programs of their schedules.
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <regex>

#include "dsl/elaboration/find.hpp"
#include "dsl/syntax/parse.hpp"
#include "tests/dsl/errors.hpp"
#include "tests/dsl/simulate.hpp"
#include "tests/support/long_form.hpp"
#include "tests/support/test.hpp"

using namespace hocket;
using Catch::Matchers::Contains;
using dsl::Collective;
using dsl::Rank;

namespace {

constexpr const char* scan = R"(
collective prefix(x) over g {
    before each r in g  x : r
    after  each r in g  x : r = combined x : 0 ..< r + 1
}
)";

// The text's collective and schedule, on a topology.
dsl::PlanRequest own_request(const std::string& file, const std::string& topology, Rank root = 0) {
    dsl::Library library({HOCKET_SCHEDULES_DIR});
    dsl::PlanRequest request = test::request({}, file, topology, 0, root);
    request.collective = dsl::first_collective_of(library, file);
    return request;
}

std::string own_error(const std::string& text, const std::string& topology = "4") {
    const test::TemporarySchedule file(text);
    return test::error_of([&] { dsl::check_schedule(own_request(file.path(), topology)); });
}

std::uint64_t given(Rank rank, std::uint64_t element) {
    return static_cast<std::uint64_t>(rank + 1) * 1'000'003 + element * 31;
}

std::uint64_t sum_of(Rank begin, Rank end, std::uint64_t element) {
    std::uint64_t sum = 0;
    for (Rank rank = begin; rank < end; ++rank) sum += given(rank, element);
    return sum;
}

// What a rank must have at an element of x, or nothing if that is left open.
using PlainResult = std::function<std::optional<std::uint64_t>(Rank rank, Rank ranks, std::uint64_t element,
                                                               std::uint64_t count)>;

Rank owner_of(std::uint64_t element, Rank ranks, std::uint64_t count) {
    return static_cast<Rank>(element / (count / static_cast<std::uint64_t>(ranks)));
}

struct LibraryCase {
    const char* collective;
    std::vector<const char*> schedules;
    PlainResult plain;
};

const std::vector<LibraryCase>& library_cases() {
    static const std::vector<LibraryCase> all = {
        {"scan",
         {"chain", "doubling", ""},
         [](Rank rank, Rank, std::uint64_t i, std::uint64_t) {
             return std::optional(sum_of(0, rank + 1, i));
         }},
        {"exclusive_scan",
         {"chain", "doubling", ""},
         [](Rank rank, Rank, std::uint64_t i, std::uint64_t) {
             return rank == 0 ? std::nullopt : std::optional(sum_of(0, rank, i));
         }},
        {"neighbours",
         {"direct", ""},
         [](Rank rank, Rank ranks, std::uint64_t i, std::uint64_t count) -> std::optional<std::uint64_t> {
             const Rank owner = owner_of(i, ranks, count);
             const Rank apart = (owner - rank + ranks) % ranks;
             return apart <= 1 || apart == ranks - 1 ? std::optional(given(owner, i)) : std::nullopt;
         }},
        {"halo",
         {"direct", ""},
         [](Rank rank, Rank ranks, std::uint64_t i, std::uint64_t count) -> std::optional<std::uint64_t> {
             const Rank owner = owner_of(i, ranks, count);
             return std::abs(owner - rank) <= 1 ? std::optional(given(owner, i)) : std::nullopt;
         }},
        {"all_to_next",
         {"direct", ""},
         [](Rank rank, Rank, std::uint64_t i, std::uint64_t) {
             return rank == 0 ? std::nullopt : std::optional(given(rank - 1, i));
         }},
    };
    return all;
}

// Ranks that share memory: none, all, or the halves.
std::vector<std::vector<int>> hosts_for(Rank ranks) {
    std::vector<std::vector<int>> all(3);
    for (Rank rank = 0; rank < ranks; ++rank) {
        all[1].push_back(0);
        all[2].push_back(rank < ranks / 2 ? 0 : 1);
    }
    return all;
}

std::vector<dsl::RankProgram> programs_of(const dsl::CheckedSchedule& checked) {
    std::vector<dsl::RankProgram> programs;
    for (Rank rank = 0; rank < checked.levels().ranks(); ++rank) programs.push_back(checked.project(rank));
    return programs;
}

// Runs the programs, and compares each rank's result with the plain one.
void check_programs(const std::vector<dsl::RankProgram>& programs, std::uint64_t count, bool in_place,
                    const PlainResult& plain) {
    std::vector<std::vector<std::uint64_t>> results;
    test::SimulationOptions options;
    options.count = count, options.in_place = in_place, options.input = given, options.results = &results;
    options.fold = [](std::uint64_t a, std::uint64_t b) { return a + b; };
    REQUIRE(test::simulate(programs, options) == "");
    const auto ranks = static_cast<Rank>(programs.size());
    for (Rank rank = 0; rank < ranks; ++rank)
        for (std::uint64_t i = 0; i < count; ++i)
            if (const auto wanted = plain(rank, ranks, i, count)) {
                INFO("rank " << rank << ", element " << i);
                REQUIRE(results[static_cast<std::size_t>(rank)][i] == *wanted);
            }
}

}  // namespace

TEST_CASE("the library's own collectives do what a plain computation does") {
    int number = 0;
    for (const LibraryCase& item : library_cases())
        for (const char* schedule : item.schedules)
            for (const char* topology : {"1", "2", "3", "5", "8", "2x3"}) {
                dsl::Library library({HOCKET_SCHEDULES_DIR});
                const Collective collective = dsl::find_collective(library, item.collective);
                dsl::PlanRequest request = test::request(collective, schedule, topology);
                const Rank ranks = dsl::check_schedule(request)->levels().ranks();
                const bool by_rank = contract_of(collective).is_by_rank();
                for (const std::vector<int>& hosts : hosts_for(ranks))
                    for (const dsl::Protocol protocol : {dsl::Protocol::bandwidth, dsl::Protocol::latency}) {
                        if (number++ % test::in_long_form(1, 5) != 0) continue;
                        request.hosts = hosts, request.protocol = protocol;
                        const auto programs = programs_of(*dsl::check_schedule(request));
                        CHECK(test::rendezvous(programs) == "");
                        for (const std::uint64_t count : {0, 1, 2, 7})
                            for (const bool in_place : {false, true}) {
                                INFO(item.collective << " by " << schedule << " on " << topology << ", count "
                                                     << count << ", in place " << in_place);
                                check_programs(programs,
                                               by_rank ? count * static_cast<std::uint64_t>(ranks) : count,
                                               in_place, item.plain);
                            }
                    }
            }
}

TEST_CASE("a schedule that misses its contract is refused with its line and the contract's") {
    const std::string error = own_error(std::string(scan) + R"(
algorithm short prefix(x) over g {
    for r in 1 ..< g.size - 1
        x : r - 1 +> r
}
)");
    CHECK_THAT(error,
               Contains("rank 3 ends with the buffer missing the part of rank 0: it has those of {3}"));
    CHECK_THAT(error, Contains("no transfer ever writes there"));
    CHECK_THAT(error, Contains(":4:25: note: the contract's statement that is not met"));
    CHECK_THAT(error, Contains("x : r = combined x : 0 ..< r + 1"));
}

TEST_CASE("a result with too many parts is refused at the transfer that added one") {
    const std::string error = own_error(std::string(scan) + R"(
algorithm all prefix(x) over g {
    for r in 1 ..< g.size
        x : r - 1 +> r
    x : 3 +> 0
}
)",
                                        "4");
    CHECK_THAT(error, Contains("adds the part of rank 0 to the buffer a second time"));
    const std::string more = own_error(std::string(scan) + R"(
algorithm all prefix(x) over g {
    for r in 1 ..< g.size
        x : r - 1 +> r
    x : 3 -> 1
}
)");
    CHECK_THAT(more, Contains(":10:5: error: algorithm all prefix"));
    CHECK_THAT(more,
               Contains("rank 1 ends with the buffer holding the parts of {0, 1, 2, 3} instead of {0, 1}"));
}

TEST_CASE("what a contract leaves open may hold anything, and nothing") {
    CHECK(own_error(R"(
collective to_odd(x) over g {
    before each r in g where r mod 2 == 0  x : r
    after  each r in g where r mod 2 == 1  x : r = x : r - 1
}
algorithm direct to_odd(x) over g where g.size mod 2 == 0 {
    each r in g where r mod 2 == 1  x : r - 1 -> r
    x : 0 -> 2
}
)") == "");
}

TEST_CASE("a contract says where data are at the start") {
    const std::string error = own_error(R"(
collective from_zero(x) over g {
    before x : 0
    after  each r in g  x : r = x : 0
}
algorithm wrong from_zero(x) over g { x : 1 -> 2 }
)");
    CHECK_THAT(error, Contains("rank 1 sends the buffer to rank 2 before anything is in it"));
}

TEST_CASE("a contract's slices go on at the first chunk after the last one") {
    const auto text = [](const char* sent) {
        return std::string(
                   "collective handed_on(x) over g where g.size > 1 {\n"
                   "before each r in g  x[r ..< r + 2] : r\n"
                   "after  each r in g  x[r + 1 ..< r + 3] : r = x[r + 1 ..< r + 3] : r + 1 }\n"
                   "algorithm one handed_on(x) over g { each r in g  x[") +
               sent + "] : r + 1 -> r }";
    };
    for (const char* topology : {"2", "3", "7"}) {
        CHECK(own_error(text("r + 1 ..< r + 3"), topology) == "");
        if (std::string(topology) != "2")
            CHECK_THAT(own_error(text("r + 1"), topology), Contains("ends with"));
    }
}

TEST_CASE("contracts that make no sense are refused at their line") {
    const auto error_of = [](const std::string& contract) {
        return own_error("collective odd(x) over g {\n" + contract +
                         "\n}\nalgorithm none odd(x) over g { each r in g  x : r +> r + 1 }");
    };
    const std::string held = "before each r in g  x : r\n";
    CHECK_THAT(error_of(held + "after each r in g  x : r = combined x : 0 ..< 9"),
               Contains(":3:41: error: there is no rank 4: the group's members are 0 ..< 4"));
    CHECK_THAT(error_of(held + "after each r in g  x[0 ..< 9] : r = x[0 ..< 9] : r"),
               Contains("the slice 0 ..< 9 names chunks twice: this group has 4"));
    CHECK_THAT(error_of(held + "after each r in g  x : r = x : r\nafter x : 2 = x : 1"),
               Contains(":4:7: error: on 4 ranks, x of rank 2 must hold two different things"));
    CHECK_THAT(error_of("before x : 0\nafter each r in g  x : r = combined x : g"),
               Contains(":3:20: error: on 4 ranks this needs x of rank 1, which holds nothing there"));
    CHECK_THAT(error_of(held + "after each r in g  x : r = combined x : 0 ..< r"),
               Contains(":3:20: error: this combines the values of no rank"));
    CHECK_THAT(error_of(held + "after each r in g  x : r = x : 0 ..< r + 1"),
               Contains("a place holds what one rank had, or a combination"));
    CHECK_THAT(error_of(held + "after each r in g  x : r = x : g"),
               Contains("a place holds what one rank had, or a combination"));
    CHECK_THAT(error_of(held + "after each r in g  x[0 ..< 2] : r = x[r] : r"),
               Contains("2 chunks cannot hold 1"));
    CHECK_THAT(error_of(held + "after each r in g  y : r = x : r"), Contains("'y' is not known here"));
    CHECK_THAT(error_of(held),
               Contains(":1:1: error: the contract of odd does not say what ranks hold at the end"));
    CHECK_THAT(error_of("after each r in g  x : r = x : r"),
               Contains("does not say what ranks hold at the start"));
    CHECK_THAT(own_error("collective reduce(x) over g { before x : 0  after x : 0 = x : 0 }"),
               Contains("reduce is a collective that Hocket has"));
}

TEST_CASE("a collective that no file defines is refused with the ones that are meant") {
    CHECK_THAT(own_error("algorithm a all_reduc(x) over g { x : 0 -> 1 }"),
               Contains("there is no collective 'all_reduc' (did you mean 'all_reduce'?)"));
    CHECK_THAT(own_error("algorithm a skan(x) over g { x : 0 -> 1 }"), Contains("(did you mean 'scan'?)"));
}

TEST_CASE("a file adds schedules to collectives that other files define") {
    CHECK(own_error(R"(
algorithm mine scan(x) over g { for r in 1 ..< g.size  x : r - 1 +> r }
algorithm mine all_to_next(x) over g { each r in 1 ..< g.size  x : r - 1 -> r }
)") == "");
    CHECK_THAT(own_error(R"(
algorithm mine scan(x) over g { for r in 1 ..< g.size  x : r - 1 +> r }
algorithm mine scan(x) over g { for r in 1 ..< g.size  x : r - 1 +> r }
)"),
               Contains("'mine' is defined twice"));
}

TEST_CASE("a contract's condition keeps its schedules from other groups") {
    const std::string text = R"(
collective transposed(x) over g where pow2(g.size) and log2(g.size) mod 2 == 0 {
    let side = 1 << log2(g.size) / 2
    let across(r) = r mod side * side + r / side
    before each r in g  x : r
    after  each r in g  x : r = x : across(r)
}
algorithm direct transposed(x) over g {
    let side = 1 << log2(g.size) / 2
    let across(r) = r mod side * side + r / side
    each r in g where r != across(r)  x : r -> across(r)
}
)";
    CHECK(own_error(text, "16") == "");
    CHECK_THAT(own_error(text, "8"), Contains("the collective transposed does not exist on 8 ranks"));
}

TEST_CASE("schedules compose own collectives, and all others") {
    // Each host's last rank has the host's sum, and passes on the sums of the hosts before.
    const std::string text = std::string(scan) + R"(
algorithm one_by_one prefix(x) over g {
    for r in 1 ..< g.size  x : r - 1 +> r
}
schedule by_host prefix(x) where levels.count == 2 {
    let n = levels[0].size
    prefix x over levels[0]
    for h in 1 ..< levels[1].size
        each r in 0 ..< n  x : h * n - 1 +> h * n + r
}
)";
    for (const char* topology : {"2x3", "3x2", "1x4"}) CHECK(own_error(text, topology) == "");
    CHECK_THAT(own_error(R"(
collective sum_of_hosts(x) over g {
    let first(r) = r / 2 * 2
    before each r in g  x : r
    after  each r in g  x : r = combined x : first(r) ..< first(r) + 2
}
schedule s sum_of_hosts(x) { all_reduce x over levels[0] }
)",
                         "2x3"),
               Contains("") && !Contains("error"));
}

TEST_CASE("the same definition is the same collective, whatever file and spaces it has") {
    const auto collective_of = [](const std::string& text) {
        const dsl::SourceFile file{"t.sched", text};
        return dsl::parse(file).collectives.at(0).collective;
    };
    const Collective one = collective_of("collective c(x) over g { before x : 0  after x : 1 = x : 0 }");
    CHECK(one == collective_of("# said\ncollective c(x) over g {\nbefore x:0\nafter x:1 = x:0\n}"));
    CHECK(one != collective_of("collective c(x) over g { before x : 0  after x : 1 = combined x : 0 }"));
    CHECK(dsl::name_of(one) == "c");
    CHECK(dsl::identity_of(one) != dsl::identity_of(Collective::all_reduce));
}

TEST_CASE("a schedule of an own collective cannot compute") {
    CHECK_THAT(own_error(std::string(scan) + "schedule s prefix(x) { x = 2 * x }"),
               Contains("a schedule of prefix, which a file defines, cannot compute"));
}
